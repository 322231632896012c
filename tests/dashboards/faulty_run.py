"""A job in a process of its own with everything that metrics tell of, and the faults that are made in it.

Its lake is on a PostgreSQL that can be stopped, its records come from a real broker. Pipelines: `orders` keeps bad
records aside and inlines, `bulk` writes files, `copy` is a replica of `orders`, `rival` loses its stream.
"""

import json
import signal
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ducklake_core import Epoch, Lake
from ducklake_core.errors import CatalogUnavailable, ContentionError, LedgerError
from ducklake_core.model import Consumer, LedgerEntry
from ducklake_core.observe import CommitDoubted, CommitRetried, Recorder, Resolution
from ducklake_sinks.report import BatchReport, BatchStopped
from ducklake_streaming.demo.local_postgres import free_port
from ducklake_streaming.kafka.events import RecordsMissing
from tests.fixtures.jobs import JobFolder, JobProcess
from tests.fixtures.kafka import Kafka, Record
from tests.fixtures.postgres import RestartingPostgres
from tests.fixtures.waiting import wait_until

SCHEMA = "id bigint, amount double"
REPLICA = {
    "mode": "upsert",
    "keys": ["id"],
    "sequence_by": ["_commit_version", "is_new"],
    "apply_as_deletes": "NOT is_new",
    "except_columns": ["_change_type", "_commit_version", "_commit_timestamp", "_rowid", "is_new"],
}
IS_NEW = "SELECT *, _change_type IN ('insert', 'update_postimage') AS is_new FROM input"
_SECOND = "the run of a second driver"


class FaultyRun:
    """The job, and what is done to it."""

    def __init__(self, folder: JobFolder, kafka: Kafka, server: RestartingPostgres) -> None:
        self.port = free_port()
        self._folder, self._kafka, self._server = folder, kafka, server
        folder.catalog = server.create_database().url
        with Lake.create(folder.catalog, f"{folder.folder}/data/") as lake:
            lake.create_table("main.orders", {"id": "int64", "amount": "float64"})
        self._topic = kafka.create_topic(partitions=2)
        self._next = 0
        self._write_job()
        self.job: JobProcess = folder.start()

    def lake(self) -> Lake:
        return Lake.open(self._folder.catalog)

    def feed(self, records: int) -> None:
        """Write good records, to both partitions."""
        ids = range(self._next, self._next + records)
        self._next += records
        self._kafka.produce(self._topic, [Record(n % 2, json.dumps({"id": n, "amount": 1.5}).encode()) for n in ids])

    def feed_poison(self, records: int) -> None:
        """Write records that nobody can read."""
        self._kafka.produce(self._topic, [Record(n % 2, b'{"id": ') for n in range(records)])

    def wait_for_rows(self, table: str, rows: int) -> None:
        self.job.wait_for(lambda: len(self._folder.rows(table, "id")) >= rows)

    def delete_some(self) -> None:
        """Delete rows and update others, so that there are changes of all types and delete files."""
        with self.lake() as lake:
            lake.delete("main.orders", "id = 0")
            lake.update("main.orders", {"amount": 2.5}, "id = 1")

    def register_stuck_consumer(self) -> None:
        """Register a consumer that has read all there is, and reads no more; what is before it expires."""
        with self.lake() as lake:
            table = lake.table("main.orders")
            read, now = table.snapshot.snapshot_id, datetime.now(UTC)
            lake.record_consumer(Consumer("billing", table.version.table_uuid, read, now, None))
            lake.expire_snapshots(keep_last=1)

    def take_over_rival(self) -> None:
        """Commit the next batch as a second driver with the same stream does; the first one may be faster."""
        with self.lake() as lake:
            wait_until(lambda: _take_over(lake, "rival"))

    def break_storage(self) -> None:
        """Put a file where the folder of data files was: not even root can write into it."""
        self._data.rename(self._data.with_name("away"))
        self._data.write_text("no folder")

    def mend_storage(self) -> None:
        self._data.unlink()
        self._data.with_name("away").rename(self._data)

    def stop_catalog(self) -> None:
        self._server.stop()

    def start_catalog(self) -> None:
        self._server.start()

    def end(self) -> None:
        self.job.signal(signal.SIGTERM)
        self.job.wait()

    @property
    def _data(self) -> Path:
        return self._folder.folder / "data"

    def _write_job(self) -> None:
        folder = self._folder
        kafka = {"kind": "kafka", "servers": self._kafka.servers, "topics": [self._topic], "schema": SCHEMA}
        feed = {"kind": "ducklake", "table": "main.orders", "read_change_feed": True, "starting_version": "earliest"}
        flush = {"rows": 5}
        copy = folder.pipeline("copy", {**feed, "consumer_id": "copy"}, "1s", flush=False, **REPLICA)
        folder.write(
            {
                "orders": folder.pipeline("orders", kafka, "1s", on_bad_row="quarantine", flush=flush),
                "bulk": folder.pipeline("bulk", kafka, "1s", on_bad_row="quarantine", inline_rows=0, flush=False),
                "copy": {**copy, "transform": {"sql": IS_NEW}},
                "rival": folder.pipeline("rival", {"kind": "rate", "rows_per_second": 5}, "1s", flush=False),
            },
            metrics={"port": self.port, "every": "1s"},
            maintenance={"every": "2s", "share": 1.0},
            job={"on_failure": "continue"},
        )


def _take_over(lake: Lake, stream: str) -> bool:
    last = _entry_of(lake, stream)
    with (
        suppress(LedgerError),
        lake.transaction(epoch=Epoch(stream, last.batch_id + 1, last.query_id, _SECOND)) as tx,
    ):
        tx.append(f"main.{stream}", {"value": [1], "timestamp": [datetime.now(UTC)]})
    return _entry_of(lake, stream).run_id == _SECOND


def _entry_of(lake: Lake, stream: str) -> LedgerEntry:
    return next(one for one in lake.ledger_entries() if one.stream == stream)


def tell_what_a_run_cannot(recorder: Recorder) -> None:
    """Tell a real recorder of what cannot be had in one run of a minute, as if it had happened to its pipeline."""
    missing = RecordsMissing("elsewhere", "orders", 0, 5, 10, 15, 20, "retention")
    committed, stopped = BatchReport({}, 1, {}, None, {"total": 0.1}), BatchStopped({}, RuntimeError("stopped"))
    for event in (missing, replace(missing, partition=1), committed, stopped):
        recorder.record(event)
    for resolution in Resolution:
        recorder.record(CommitDoubted(resolution, 1))
    for cause in (ContentionError("another took it"), CatalogUnavailable("away")):
        recorder.record(CommitRetried("a catalog", 1, cause))
