"""Changes by Spark's own scan: the same columns and rows as `Lake.changes`, in every range of every history."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Lake
from ducklake_core.model import Column
from ducklake_sources import changes_scan, native_changes
from ducklake_sources.native_files import may_overflow, unfit_columns
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.pairs import texts_of
from tests.fixtures.spark_reads import fill_with_every_type, texts_by_spark
from tests.fixtures.values import column_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ONLY_SQLITE = pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
CHANGE = (
    column_of("varchar", "_change_type"),
    column_of("int64", "_commit_version"),
    column_of("timestamptz", "_commit_timestamp"),
    column_of("int64", "_rowid"),
)


class Readers:
    """Counts what was left to our own reader."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts = 0
        monkeypatch.setattr(changes_scan, "_FEW_ROWS", -1)  # else the driver would read all of them itself
        self._real = changes_scan._by_our_reader  # counted here
        monkeypatch.setattr(changes_scan, "_by_our_reader", self._count)

    def _count(self, spark: SparkSession, partitions: list[object], schema: object) -> DataFrame:
        self.parts += len(partitions)
        return self._real(spark, partitions, schema)  # type: ignore[arg-type] # as they came


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Readers:
    return Readers(monkeypatch)


def check(spark: SparkSession, catalog: Catalog, lake: Lake, start: int, end: int, *, net: bool = False) -> int:
    """Check a range of the table `t`; return how many changes it has."""
    expected = lake.changes("t", start, end, net=net)
    found = native_changes(spark, catalog.url, "t", start, end, net=net)
    columns: tuple[Column, ...] = (*lake.table("t", end).version.columns, *CHANGE)
    assert found.columns == expected.column_names
    assert texts_by_spark(found, columns) == sorted(texts_of(expected, columns), key=repr), (start, end, net)
    return int(expected.num_rows)


def spans_of(lake: Lake) -> list[tuple[int, int]]:
    """Return each snapshot since the table was made, and what is from the first one on, and up to the last one."""
    first, last = lake.table("t").version.begin_snapshot, lake.snapshots()[-1].snapshot_id
    return [(a, b) for a in range(first, last + 1) for b in range(a, last + 1) if a in (b, first) or b == last]


def test_ranges_of_a_life_have_the_same_changes(
    spark: SparkSession, lived_lake: Lake, catalog: Catalog, readers: Readers
) -> None:
    sizes = [check(spark, catalog, lived_lake, a, b, net=a > b - 3) for a, b in spans_of(lived_lake)[::2]]

    assert sum(sizes) > 10_000
    assert readers.parts  # of columns with defaults


@ONLY_SQLITE
def test_every_type_has_the_same_changes(spark: SparkSession, catalog: Catalog, readers: Readers) -> None:
    with Lake.create(catalog.url, data_path=catalog.data_path) as lake:
        fill_with_every_type(lake)
        lake.update("t", {"c_int8": 7}, "id < 2")
        last = lake.snapshots()[-1].snapshot_id
        columns = [c for c in lake.table("t").version.columns if not may_overflow([c]) and not any(unfit_columns([c]))]
        names = [column.name for column in columns]

        check(spark, catalog, lake, 1, last)
        left = readers.parts
        native = native_changes(spark, catalog.url, "t", 1, last, columns=names)
        expected = texts_of(lake.changes("t", 1, last, columns=names), (*columns, *CHANGE))

    assert texts_by_spark(native, (*columns, *CHANGE)) == sorted(expected, key=repr)
    assert left  # all columns are not for Spark's scan, but these are
    assert readers.parts == left


HARD = (
    "CREATE TABLE t (i BIGINT, s VARCHAR)",
    "INSERT INTO t SELECT i, 'a' FROM range(9000) r(i)",  # three chunks
    "INSERT INTO t VALUES (-1, 'in'), (-2, 'in')",
    "UPDATE t SET s = 'b' WHERE i % 7 = 0 OR i = -1",
    "BEGIN; INSERT INTO t SELECT i + 10000, 'c' FROM range(50) r(i); DELETE FROM t WHERE i >= 10040; COMMIT",
    "UPDATE t SET s = 'd' WHERE i % 1000 = 0",
    "DELETE FROM t WHERE i IN (1, 2, 4095, 4096, 8999, -2)",
    "BEGIN; INSERT INTO t VALUES (77777, 'x'); UPDATE t SET s = 'y' WHERE i = 77777; COMMIT",
    "CALL ducklake_flush_inlined_data('lake')",
    "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)",
    "CALL ducklake_merge_adjacent_files('lake')",
    "DELETE FROM t WHERE i < 5000",
    "DELETE FROM t",
)


def test_hard_histories_have_the_same_changes(
    spark: SparkSession, oracle: Oracle, catalog: Catalog, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    oracle.attach(catalog.attach, data_path=catalog.data_path, data_inlining_row_limit=10)
    for statement in HARD:
        oracle.execute(statement)
    oracle.detach()
    with Lake.open(catalog.url) as lake:
        sizes = [check(spark, catalog, lake, a, b, net=a % 2 == 1 and a < b) for a, b in spans_of(lake)]
        monkeypatch.setattr(changes_scan, "_FEW_ROWS", 100_000)
        check(spark, catalog, lake, 2, lake.snapshots()[-1].snapshot_id)

    assert sum(sizes) > 50_000
    assert not readers.parts
