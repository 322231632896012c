"""Rows that a table cannot hold: the batch fails, or they are kept with the reason, in the same snapshot."""

import json
import logging

import pytest
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.sinks import MakeSink

pytestmark = pytest.mark.slow

SIZES = pytest.mark.parametrize("rows", [30, 3000], ids=["inlined", "files"])


def poisoned(spark: SparkSession, rows: int) -> DataFrame:
    """Return rows of which one has a number too large for its column, and one a null where none may be."""
    return spark.range(0, rows, 1, 2).selectExpr("IF(id = 5, NULL, id) AS id", "IF(id = 6, 1L << 40, id) AS n")


@pytest.fixture
def strict_table(catalog: Catalog) -> Catalog:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("main.events", {"id": "int64", "n": "int32"})
        lake.set_not_null("main.events", "id")
    return catalog


@SIZES
def test_bad_row_fails_the_batch_and_nothing_is_written(
    spark: SparkSession, strict_table: Catalog, make_sink: MakeSink, rows: int
) -> None:
    sink = make_sink(inline_rows=50)

    with pytest.raises(Exception, match=r"forbids nulls|does not fit"):
        sink(poisoned(spark, rows).coalesce(1), 0)  # what other tasks had written would be orphans

    with Lake.open(strict_table.url) as lake:
        assert lake.table("main.events").count() == 0
        assert lake.ledger_entry("s") is None
    check_lake(strict_table, orphans=0)


@SIZES
def test_bad_rows_are_kept_in_the_same_snapshot(
    spark: SparkSession, strict_table: Catalog, make_sink: MakeSink, oracle: Oracle, rows: int
) -> None:
    before = len(strict_table.query("SELECT * FROM ducklake_snapshot"))
    sink = make_sink(inline_rows=50, on_bad_row="quarantine")

    sink(poisoned(spark, rows), 0)
    sink(poisoned(spark, rows), 1)

    oracle.attach(strict_table.attach)
    assert oracle.query("SELECT count(*), count(DISTINCT id) FROM events") == [(2 * rows - 4, rows - 2)]
    letters = oracle.query("SELECT stream, batch_id, table_name, reason, row FROM events_dead_letters ORDER BY 2, 5")
    assert [letter[:3] for letter in letters] == [("s", b, "main.events") for b in (0, 0, 1, 1)]
    assert json.loads(letters[0][4]) == {"id": 6, "n": 1 << 40}
    assert json.loads(letters[1][4]) == {"id": None, "n": 5}
    assert "does not fit" in letters[0][3]
    assert "forbids nulls" in letters[1][3]
    assert len(strict_table.query("SELECT * FROM ducklake_snapshot")) == before + 2
    check_lake(strict_table, orphans=0)


@SIZES
@pytest.mark.usefixtures("strict_table")
def test_dead_letters_are_counted_and_warned_of(
    spark: SparkSession, make_sink: MakeSink, rows: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="ducklake_sinks")
    sink = make_sink(inline_rows=50, on_bad_row="quarantine")

    sink(poisoned(spark, rows), 0)
    sink.append(poisoned(spark, rows))

    warned = [record for record in caplog.records if record.getMessage().startswith("rows_quarantined")]
    assert {record.levelname for record in warned} == {"WARNING"}
    assert any(
        "stream=s batch=0 table=main.events rows=2 kept_in=main.events_dead_letters reason=" in message
        for message in caplog.messages
    )
    told = [message for message in caplog.messages if message.startswith("batch_committed")]
    assert [f"rows={rows - 2} dead_letters=2" in message for message in told] == [True, True]


@pytest.mark.usefixtures("strict_table")
def test_batch_that_another_run_has_committed_warns_of_no_dead_letters(
    spark: SparkSession, make_sink: MakeSink, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="ducklake_sinks")
    late = make_sink(on_bad_row="quarantine").transaction(0, spark)
    late.append(poisoned(spark, 30))
    make_sink(on_bad_row="quarantine")(poisoned(spark, 30), 0)
    caplog.clear()

    assert late.commit().replayed

    [line] = [record.getMessage() for record in caplog.records if record.name == "ducklake_sinks"]
    assert line.startswith("batch_replayed stream=s batch=0 rows=0 dead_letters=0")


def test_batches_without_bad_rows_need_no_dead_letters(
    spark: SparkSession, strict_table: Catalog, make_sink: MakeSink
) -> None:
    sink = make_sink(on_bad_row="quarantine")

    sink(spark.range(5).selectExpr("id", "CAST(1 AS INT) AS n"), 0)
    sink(spark.range(5).selectExpr("id", "CAST(1 AS INT) AS n"), 1)

    with Lake.open(strict_table.url) as lake:
        assert [table.name for table in lake.tables()] == ["main.events"]


def test_dead_letter_table_must_be_one(spark: SparkSession, strict_table: Catalog, make_sink: MakeSink) -> None:
    with Lake.open(strict_table.url) as lake:
        lake.create_table("main.other", {"x": "int32"})
    sink = make_sink(on_bad_row="quarantine", dead_letter_table="main.other")

    with pytest.raises(InvalidInput, match="name another with dead_letter_table"):
        sink(poisoned(spark, 30), 0)
