"""Tables by Spark's own scan: the same rows as core reads, or a refusal that names the reason."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput
from ducklake_sources import native_changes, native_table, read_table
from tests.fixtures.catalogs import Catalog
from tests.fixtures.pairs import texts_of
from tests.fixtures.sinks import MakeSink
from tests.fixtures.spark_reads import texts_by_spark

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ONLY_SQLITE = pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
DAY = datetime(1500, 3, 4, 5, 6, 7, 8000)  # noqa: DTZ001 # before calendars changed, without a zone by purpose
FIT = {
    "id": "int64",
    "n": "uint64",
    "d": "decimal(9,2)",
    "x": "float64",
    "name": "varchar",
    "doc": "json",
    "day": "date",
    "at": "timestamp",
    "ms": "timestamp_ms",
    "tz": "timestamptz",
    "raw": "blob",
    "s": 'struct(a int32, "b c" varchar[])',
    "m": "map(varchar, int64)",
}


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    """Give an empty lake whose rows are all in files."""
    with Lake.create(catalog.url, data_path=catalog.data_path) as made:
        made.set_option("data_inlining_row_limit", 0)
        yield made


def make_rows(schema: pa.Schema, first: int) -> pa.Table:
    row = {
        "n": 2**64 - 1,
        "x": float("nan"),
        "name": "it's",
        "doc": '{"a": 1}',
        "raw": b"\0",
        "s": {"a": 1, "b c": ["x", None]},
        "m": [("k", 1)],
    }
    plain = pa.schema([f if f.name != "doc" else pa.field("doc", pa.string()) for f in schema])
    moments = {"d": Decimal("-1.25"), "day": DAY.date(), "at": DAY, "ms": DAY, "tz": DAY.replace(tzinfo=UTC)}
    every_other = [{**row, "id": number, **(moments if number % 2 else {})} for number in range(first, first + 100)]
    return pa.Table.from_pylist(every_other, plain)


@ONLY_SQLITE
def test_types_deletes_renames_and_inlined_rows(spark: SparkSession, lake: Lake, catalog: Catalog) -> None:
    lake.create_table("t", FIT)
    schema = lake.table("t").schema
    lake.append("t", make_rows(schema, 0))
    lake.append("t", make_rows(schema, 100))
    lake.delete("t", "id >= 50 AND id < 60")
    lake.rename_column("t", "name", "title")
    lake.add_column("t", "name", "int32")  # a new one with the old name
    lake.set_option("data_inlining_row_limit", 1000)
    renamed = make_rows(schema, 200).rename_columns([n if n != "name" else "title" for n in schema.names])
    lake.append("t", renamed, fill_missing=True)
    table = lake.table("t")

    frame = native_table(spark, catalog.url, "t")

    columns = table.version.columns
    assert texts_by_spark(frame, columns) == sorted(texts_of(table.read(), columns), key=repr)
    assert native_table(spark, catalog.url, "t", columns=["title", "id"]).where("id >= 55").count() == 240
    assert native_table(spark, catalog.url, "t", versionAsOf=2).count() == 100


@ONLY_SQLITE
def test_every_snapshot_has_the_same_rows_or_some_files_are_left_to_our_reader(
    spark: SparkSession, lived_lake: Lake, catalog: Catalog
) -> None:
    outcomes = []
    for snapshot in lived_lake.snapshots():
        for table in lived_lake.tables(snapshot.snapshot_id):
            columns = table.version.columns
            try:
                frame = native_table(spark, catalog.url, "t", versionAsOf=snapshot.snapshot_id)
                outcomes.append("same")
            except InvalidInput as error:
                outcomes.append(str(error))
                frame = read_table(spark, catalog.url, "t", versionAsOf=snapshot.snapshot_id)
            assert texts_by_spark(frame, columns) == sorted(texts_of(table.read(), columns), key=repr)

    assert outcomes.count("same") > 4
    assert any("column 'fresh' has another type or a default in file" in outcome for outcome in outcomes)
    assert any("has rows of later snapshots" in outcome for outcome in outcomes)


@ONLY_SQLITE
@pytest.mark.parametrize("type_", ["uuid", "interval", "int128", "timestamp_ns", "time", "struct(u uuid)"])
def test_type_that_sparks_scan_reads_otherwise_is_refused(
    spark: SparkSession, lake: Lake, catalog: Catalog, type_: str
) -> None:
    lake.create_table("t", {"id": "int64", "odd": type_})

    with pytest.raises(InvalidInput, match=r"'main\.t' cannot be read by Spark's own scan, .* column 'odd' has type"):
        native_table(spark, catalog.url, "t")
    assert native_table(spark, catalog.url, "t", columns=["id"]).count() == 0
    assert read_table(spark, catalog.url, "t").columns == ["id", "odd"]


@ONLY_SQLITE
@pytest.mark.parametrize(("where", "sizes"), [("true", [1, 2, 2]), ("part > 0", [1, 1, 2])], ids=["alike", "mixed"])
def test_files_of_one_name_are_told_apart(
    spark: SparkSession, lake: Lake, catalog: Catalog, make_sink: MakeSink, where: str, sizes: list[int]
) -> None:
    """Spark's own writer calls the files of all partitions the same; two of equal rows have one size, too."""
    rows = spark.range(0, 9000, 1, 1).selectExpr("id % 3 AS part", "if(id % 3 = 2, id * 7919 % 9001, id div 3) AS v")
    make_sink(stream=None, inline_rows=10, partition_by=["part"]).append(rows.where(where), "t")
    for first in (10_000, 20_000):
        lake.append("t", {"part": [7] * 100, "v": range(first, first + 100)})
    lake.delete("t", "part = 1 AND v < 1000 OR v BETWEEN 10000 AND 10010 OR v BETWEEN 20050 AND 20099")
    lake.delete("t", "part <> 1 AND v BETWEEN 1500 AND 1600")
    table = lake.table("t")

    frame, columns = native_table(spark, catalog.url, "t"), table.version.columns

    assert texts_by_spark(frame, columns) == sorted(texts_of(table.read(), columns), key=repr)
    assert sorted(Counter(file.file_size_bytes for file in table.files()).values()) == sizes


@ONLY_SQLITE
def test_nested_columns_without_rows(spark: SparkSession, lake: Lake, catalog: Catalog) -> None:
    lake.create_table("t", {"id": "int64", "l": "int32[]", "s": "struct(a varchar)"})

    frames = [native_table(spark, catalog.url, "t"), native_changes(spark, catalog.url, "t", start=1)]

    assert [frame.collect() for frame in frames] == [[], []]
    assert [frame.columns[:3] for frame in frames] == [["id", "l", "s"]] * 2


@ONLY_SQLITE
def test_file_of_before_a_promotion_is_refused_or_left_to_our_reader(
    spark: SparkSession, lake: Lake, catalog: Catalog
) -> None:
    lake.create_table("t", {"id": "int32"})
    lake.append("t", {"id": [1, 2, 3]})
    lake.promote_column("t", "id", "int64")
    lake.append("t", {"id": [2**40, 5]})
    lake.delete("t", "id IN (2, 5)")
    lake.set_option("data_inlining_row_limit", 10)
    lake.append("t", {"id": [6]})

    with pytest.raises(InvalidInput, match="column 'id' has another type"):
        native_table(spark, catalog.url, "t")

    frame = read_table(spark, catalog.url, "t")
    assert sorted(row.id for row in frame.collect()) == [1, 3, 6, 2**40]
    assert [path.rpartition("/")[2] for path in frame.inputFiles()] == [
        file.path.rpartition("/")[2] for file in lake.table("t").files() if file.begin_snapshot == 4
    ]
