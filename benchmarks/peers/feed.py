"""Changes of a table: twenty commits that each update a hundredth of a million rows and delete a five-hundredth.

Each arm reads all 440,000 changes into Spark's `noop` sink. Delta's table has deletion vectors and its change data feed
from the start; each of its commits is one MERGE. Iceberg's copies files on write, as its changelog view asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from benchmarks import spark_feed
from benchmarks.peers.session import CATALOG, copy_to_delta, copy_to_iceberg
from benchmarks.read import TABLE
from benchmarks.spark_feed import DELETED, UPDATED, one_of, write_nowhere
from ducklake_core import Lake

Arm: TypeAlias = Callable[[SparkSession, Path], object]
COMMITS = 20
ROWS, QUICK_ROWS = 1_000_000, 30_000
_ICEBERG = "feed_iceberg.changes"
_KINDS = {"update_before": "update_preimage", "update_after": "update_postimage"}  # as Iceberg calls them


def make(spark: SparkSession, place: Path, rows: int) -> None:
    """Make the same table and the same commits by us and by Delta."""
    first = spark_feed.make_changes(place_of(place).url, f"{place}/data/", rows, COMMITS)
    (place / "first").write_text(str(first))
    properties = {"enableChangeDataFeed": "true", "enableDeletionVectors": "true"}
    copy_to_delta(spark, _first_files(place), place / "delta", properties)
    _commit(spark, f"delta.`{place}/delta`", rows)


def make_iceberg(spark: SparkSession, place: Path, rows: int) -> None:
    """Make the same by Iceberg; the place is beside that of the others."""
    copy_to_iceberg(spark, _first_files(place.parent / "feed"), f"{CATALOG}.{_ICEBERG}", {})
    _commit(spark, f"{CATALOG}.{_ICEBERG}", rows)


def check(spark: SparkSession, place: Path, rows: int, arms: Sequence[str]) -> None:
    """See that arms read as many changes of each kind."""
    updated, deleted = (COMMITS * 10 * (rows // many // 10) for many in (UPDATED, DELETED))
    expected = {"delete": deleted, "update_postimage": updated, "update_preimage": updated}
    for name in arms:
        counts = FRAMES[name](spark, place).groupBy("_change_type").count().collect()
        found = {_KINDS.get(kind.lower(), kind.lower()): number for kind, number in counts}
        assert found == expected, f"{name}: {found}, not {expected}"


def place_of(place: Path) -> spark_feed.Place:
    told = place / "first"
    first = int(told.read_text()) if told.is_file() else 0
    return spark_feed.Place(f"sqlite:///{place}/lake.sqlite", first, str(place / "checkpoints"))


def _first_files(place: Path) -> list[str]:
    told = place_of(place)
    with Lake.open(told.url) as lake:
        return [file.path for file in lake.table(TABLE, at=told.first - 1).files()]


def _commit(spark: SparkSession, table: str, rows: int) -> None:
    for number in range(COMMITS):
        updated, deleted = one_of(UPDATED, number, rows), one_of(DELETED, number + UPDATED, rows)
        spark.sql(
            f"MERGE INTO {table} t USING (SELECT id, {deleted} AS gone FROM range({rows}) WHERE {updated} OR {deleted})"
            f" s ON t.id = s.id WHEN MATCHED AND s.gone THEN DELETE WHEN MATCHED THEN UPDATE SET t.t = 'of {number}'"
        )


def _by_delta(spark: SparkSession, place: Path) -> DataFrame:
    options = {"readChangeFeed": "true", "startingVersion": "2"}  # 0 made the table, 1 filled it
    return spark.read.format("delta").options(**options).load(f"{place}/delta")


def _by_iceberg(spark: SparkSession, place: Path) -> DataFrame:  # noqa: ARG001 # as of all arms
    history = spark.sql(f"SELECT snapshot_id FROM {CATALOG}.{_ICEBERG}.snapshots ORDER BY committed_at").collect()
    filled = history[-COMMITS - 1][0]
    spark.sql(
        f"CALL {CATALOG}.system.create_changelog_view(table => '{_ICEBERG}', changelog_view => 'iceberg_changes',"
        f" options => map('start-snapshot-id', '{filled}'), identifier_columns => array('id'))"
    )
    return spark.table("iceberg_changes")


FRAMES: Mapping[str, Callable[[SparkSession, Path], DataFrame]] = {
    "native_changes": lambda spark, place: spark_feed.changes_natively(spark, place_of(place)),
    "format": lambda spark, place: spark_feed.changes_by_format(spark, place_of(place)),
    "Delta": _by_delta,
    "Iceberg": _by_iceberg,
}


def _read_all(read: Callable[[SparkSession, Path], DataFrame]) -> Arm:
    return lambda spark, place: write_nowhere(read(spark, place))


ARMS: Mapping[str, Arm] = {name: _read_all(read) for name, read in FRAMES.items()}
