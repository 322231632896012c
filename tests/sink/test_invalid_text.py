"""Rows with a text that is no UTF-8, as `cast(value AS STRING)` makes them: refused by name, or kept aside as hex."""

import json
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput
from ducklake_core.files.parquet_writer import FileLayout
from ducklake_core.files.storage import Storage
from ducklake_core.model import NewDataFile
from ducklake_sinks import large_batch
from ducklake_sinks.native_columns import NativeColumns
from ducklake_sinks.native_files import write_natively
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.sinks import MakeSink

pytestmark = pytest.mark.slow

TEXT = "IF(id = {bad}, CAST(X'62ff64' AS STRING), CAST(id AS STRING))"
FORMS = {
    "text": "{text} AS v",
    "struct": "named_struct('a', named_struct('b', {text})) AS v",
    "list": "array('x', {text}) AS v",
    "map key": "map({text}, 1) AS v",
    "map value": "map('k', {text}) AS v",
}
SHOWN = {
    "text": "0x62ff64",
    "struct": {"a": {"b": "0x62ff64"}},
    "list": ["x", "0x62ff64"],
    "map key": [["0x62ff64", 1]],
    "map value": [["k", "0x62ff64"]],
}
# Whoever writes them: the driver; Spark's writer, which takes lists and maps for nobody; or Python tasks.
SIZES = pytest.mark.parametrize("rows", [30, 3000], ids=["driver", "executors"])


def poisoned(spark: SparkSession, rows: int, form: str, bad: int = 7) -> DataFrame:
    return spark.range(0, rows, 1, 2).selectExpr("id", FORMS[form].format(text=TEXT.format(bad=bad)))


def expect_large(spark: SparkSession, sink: Callable[[DataFrame, int], object], rows: int, form: str) -> None:
    """Write a good batch first: what it was is what the next one is expected to be."""
    sink(poisoned(spark, rows, form, bad=-1), 0)


@SIZES
@pytest.mark.parametrize("form", FORMS)
def test_it_fails_the_batch_by_column_and_row(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, form: str, rows: int
) -> None:
    sink = make_sink(inline_rows=50)
    expect_large(spark, sink, rows, form)

    with pytest.raises(InvalidInput, match=r"'main\.events': column 'v' of row 7 of .*0x62ff64") as caught:
        sink(poisoned(spark, rows, form), 1)

    assert (caught.value.column, caught.value.row) == ("v", 7)
    with Lake.open(catalog.url) as lake:
        assert lake.table("main.events").count() == rows
        assert lake.ledger_entry("s").batch_id == 0  # type: ignore[union-attr] # there is one
    check_lake(catalog, orphans=0)


@SIZES
@pytest.mark.parametrize("form", FORMS)
def test_it_is_kept_aside_and_the_others_are_committed(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, form: str, rows: int
) -> None:
    sink = make_sink(inline_rows=50, on_bad_row="quarantine")

    sink(poisoned(spark, rows, form), 0)
    sink(poisoned(spark, rows, form), 1)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), count(DISTINCT id), count(v) FROM events") == [
        (2 * rows - 2, rows - 1, 2 * rows - 2)
    ]
    letters = oracle.query("SELECT batch_id, table_name, reason, row FROM events_dead_letters ORDER BY 1")
    assert [letter[:2] for letter in letters] == [(0, "main.events"), (1, "main.events")]
    assert "no UTF-8 in 'v'" in letters[0][2]
    assert "0x" in letters[0][2]
    assert json.loads(letters[0][3]) == {"id": 7, "v": SHOWN[form]}
    with Lake.open(catalog.url) as lake:
        assert lake.table("main.events").count() == 2 * rows - 2
    check_lake(catalog, orphans=0)


def test_spark_s_writer_leaves_such_tables_to_python_tasks_from_then_on(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = make_sink(inline_rows=50, on_bad_row="quarantine")
    native: list[FileLayout] = []

    def write(
        frame: DataFrame, layout: FileLayout, storage: Storage, columns: NativeColumns
    ) -> tuple[NewDataFile, ...]:
        native.append(layout)
        return write_natively(frame, layout, storage, columns)

    monkeypatch.setattr(large_batch, "write_natively", write)

    for batch in range(4):
        sink(poisoned(spark, 3000, "text", bad=-1 if batch == 0 else 7), batch)

    assert len(native) == 2  # the first batch was good, the second was found not to be
    with Lake.open(catalog.url) as lake:
        assert lake.table("main.events").count() == 4 * 3000 - 3
        assert lake.table("main.events_dead_letters").count() == 3
    check_lake(catalog, orphans=0)


@SIZES
def test_route_that_is_no_text_names_no_table(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, rows: int
) -> None:
    kind = "CASE WHEN id = 7 THEN CAST(X'6fff' AS STRING) ELSE concat('k', id % 2) END AS kind"
    frame = spark.range(0, rows, 1, 2).selectExpr("id", kind, TEXT.format(bad=8) + " AS v")

    with pytest.raises(InvalidInput, match=r"column 'kind' of row 7 of .*0x6fff"):
        make_sink(inline_rows=50, table=None, route="kind")(frame, 0)
    make_sink(
        inline_rows=50, table=None, route="kind", on_bad_row="quarantine", dead_letter_table="main.dead", stream="q"
    )(frame, 0)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT (SELECT count(*) FROM k0) + (SELECT count(*) FROM k1)") == [(rows - 2,)]
    letters = oracle.query("SELECT table_name, row FROM dead ORDER BY row")
    assert [(table, json.loads(row)) for table, row in letters] == [
        (None, {"id": 7, "kind": "0x6fff", "v": "7"}),
        ("k0", {"id": 8, "kind": "k0", "v": "0x62ff64"}),
    ]
    check_lake(catalog, orphans=0)


@SIZES
def test_nul_is_a_character_like_others(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, rows: int
) -> None:
    sink = make_sink(inline_rows=50)

    sink(spark.range(0, rows, 1, 2).selectExpr("id", "concat('a', char(0), 'é') AS v", "array(char(0)) AS l"), 0)

    oracle.attach(catalog.attach)
    # Not compared as texts: the extension ends a filter that it sends to the catalog at the NUL.
    assert oracle.query("SELECT DISTINCT hex(v), hex(l[1]) FROM events") == [("6100C3A9", "00")]
