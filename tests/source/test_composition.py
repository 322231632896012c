"""From one table to the next: the changes of bronze, transformed, into silver, by drivers that die again and again."""

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_sources.spark_versions import HAS_LIMITS
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.driver_jobs import Fault, Job
from tests.fixtures.drivers import Driver, Drivers
from tests.fixtures.ingests import with_secret
from tests.fixtures.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ONLY_POSTGRES = pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
POINTS = ("after_collect", "after_head_read", "after_commit")
KILLS = int(os.environ.get("KILLS", "5"))  # each is a driver that starts: half a minute on a busy machine
# Changes become a replica; of two in one snapshot, what a key has afterwards is what was inserted.
REPLICA = {
    "mode": "upsert",
    "keys": ["i"],
    "sequence_by": ["version", "is_insert"],
    "apply_as_deletes": "kind IN ('delete', 'update_preimage')",
    "except_columns": ["kind", "version", "row_id", "is_insert"],
}
IS_INSERT = "_change_type IN ('insert', 'update_postimage') AS is_insert"
EXPRESSIONS = [
    "i",
    "upper(s) AS s",
    "_change_type AS kind",
    "_commit_version AS version",
    "_rowid AS row_id",
    IS_INSERT,
]


BRONZE = "SELECT i, upper(s) FROM bronze ORDER BY ALL"


class Silver:
    """A table `main.silver` that has each change of `main.bronze`, and its replica `main.copy`, by way of drivers."""

    def __init__(self, catalog: Catalog, drivers: Drivers, checkpoint: Path) -> None:
        self.catalog = catalog
        self.lake = Lake.create(catalog.url, data_path=catalog.data_path)
        self.lake.set_option("data_inlining_row_limit", 5)
        self.lake.create_table("bronze", {"i": "int64", "s": "varchar"})
        self.checkpoint = checkpoint
        self.used: list[Driver] = []
        self._drivers = drivers
        self._count = 0

    def change_bronze(self, choose: random.Random) -> None:
        """Let bronze have some snapshots more, of every kind."""
        size = choose.choice((2, 20))
        numbers = range(self._count, self._count + size)
        self._count += size
        self.lake.append("bronze", pa.table({"i": list(numbers), "s": ["a"] * size}))
        self.lake.update("bronze", {"s": f"u{self._count}"}, f"i = {choose.randrange(self._count)}")
        self.lake.delete("bronze", f"i = {choose.randrange(self._count)}")
        if choose.random() < 0.5:
            self.lake.flush_inlined("bronze")

    def start(self, *faults: Fault, client: str = "classic") -> Driver:
        options = {"catalog": with_secret(self.catalog.url), "table": "bronze", "readChangeFeed": "true"}
        sink = {"catalog": with_secret(self.catalog.url), "table": "silver", "stream": "silver", "inline_rows": 15}
        job = Job(
            input="",
            checkpoint=str(self.checkpoint),
            sinks=[{**sink, "flush": None}, {**sink, "flush": None, "table": "copy", "stream": "copy", **REPLICA}],
            source="ducklake",
            source_options={**options, "startingVersion": "earliest", "maxVersionsPerTrigger": "3"},
            expressions=EXPRESSIONS,
            faults=list(faults),
        )
        driver = self._drivers.start(job, client)
        self.used.append(driver)
        return driver

    def repeat(self) -> None:
        """Let a driver do again what the last one did not live to do: before 4.2, a run that does so ends with it."""
        if not HAS_LIMITS:
            assert self.start().end() is None

    def next_batch(self) -> int:
        entry = self.lake.ledger_entry("silver")
        return 0 if entry is None else entry.batch_id + 1

    def check(self, oracle: Oracle, orphans: int = 0) -> None:
        """Compare silver with what a batch makes of bronze; DuckDB reads the same. `orphans`: files nobody knows."""
        changes = self.lake.changes("bronze", 1).to_pylist()
        expected = Counter(
            (c["i"], c["s"].upper(), c["_change_type"], c["_commit_version"], c["_rowid"]) for c in changes
        )
        silver = self.lake.table("silver").read(["i", "s", "kind", "version", "row_id"]).to_pylist()
        assert Counter(tuple(row.values()) for row in silver) == expected
        check_lake(self.catalog, orphans=orphans)
        oracle.attach(self.catalog.attach)
        assert Counter(oracle.query("SELECT i, s, kind, version, row_id FROM silver")) == expected
        assert oracle.query("SELECT * FROM copy ORDER BY ALL") == oracle.query(BRONZE)


@pytest.fixture
def silver(catalog: Catalog, drivers: Drivers, tmp_path: Path) -> Iterator[Silver]:
    made = Silver(catalog, drivers, tmp_path / "checkpoint")
    yield made
    made.lake.close()


@ONLY_POSTGRES
def test_silver_is_what_a_batch_makes_of_bronze_though_its_driver_was_killed_again_and_again(
    silver: Silver, oracle: Oracle
) -> None:
    choose = random.Random(0)  # noqa: S311 # no secret

    for _ in range(KILLS):
        silver.repeat()
        silver.change_bronze(choose)
        silver.start(Fault(choose.choice(POINTS), "kill", silver.next_batch())).wait_dead()
    silver.repeat()
    silver.change_bronze(choose)
    last = silver.start()

    assert last.end() is None
    silver.check(oracle, orphans=2 * KILLS)
    extra = [json.loads(s.extra_info) for s in silver.lake.snapshots() if s.extra_info and "silver" in s.extra_info]
    assert [info["batch_id"] for info in extra] == sorted({info["batch_id"] for info in extra})
    bronze = silver.lake.table("bronze").version.table_uuid
    assert all(info["offsets"][0]["table_uuid"] == str(bronze) for info in extra)
    ends = [info["offsets"][0]["snapshot_id"] for info in extra]
    assert ends == sorted(ends)
    assert all("correct-horse" not in driver.log for driver in silver.used)


@ONLY_POSTGRES
def test_feed_is_read_over_connect(silver: Silver, oracle: Oracle) -> None:
    choose = random.Random(1)  # noqa: S311 # no secret
    silver.change_bronze(choose)
    assert silver.start(client="connect").end() is None
    silver.change_bronze(choose)

    assert silver.start(client="connect").end() is None

    silver.check(oracle)
