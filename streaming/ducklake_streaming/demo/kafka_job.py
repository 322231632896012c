"""The job file of the demonstration with Kafka, and what a lake holds that it writes. No Spark."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ducklake_core import Lake
from ducklake_core.errors import NoLakeFound, ObjectNotFound
from ducklake_core.observe import Event
from ducklake_streaming.demo.orders import SCHEMA, TOPICS, Place

TABLE = "main.orders"
DEAD_LETTERS = "main.dead_letters"
_PLACE = ("topic", "partition", "offset")

_JOB = """\
# ducklake-stream check {file}
# ducklake-stream run {file}

[catalog]
url = {catalog}
data_path = "data/"                  # paths are relative to this file

[spark]
master = "local[2]"
settings = {{ "spark.sql.shuffle.partitions" = "2", "spark.ui.enabled" = "false" }}
jars = "jars/"                       # without this line, Spark fetches its Kafka connector itself

[metrics]                            # and the status page: http://127.0.0.1:{port}/
port = {port}
every = "2s"

[pipeline.orders]
checkpoint = "checkpoints/orders"
trigger = "1 second"

[pipeline.orders.input]
kind = "kafka"
servers = {servers}
topics = {topics}
format = "json"
schema = {schema}
starting_offsets = "earliest"
max_records_per_trigger = 50_000

[pipeline.orders.transform]
sql = "SELECT id, customer, kind, amount, ts, topic, partition, offset FROM input"

[pipeline.orders.sink]
table = "{table}"
partition_by = ["year(ts)", "month(ts)", "day(ts)"]
inline_rows = 10_000
on_bad_row = "quarantine"
dead_letter_table = "{dead_letters}"
flush = {{ rows = 5_000, bytes = "64MB", age = "10s" }}
"""


def write_job(folder: Path, catalog: str, servers: str, jars: Sequence[Path], port: int) -> Path:
    """Write a job file and the folder of jars that it names; return the file. `port`: where the job serves its page."""
    (folder / "jars").mkdir()
    for jar in jars:
        shutil.copy(jar, folder / "jars")
    file = folder / "job.toml"
    texts = {"catalog": catalog, "servers": servers, "topics": list(TOPICS), "schema": SCHEMA}
    quoted = {name: json.dumps(value, ensure_ascii=False) for name, value in texts.items()}  # TOML writes them alike
    file.write_text(_JOB.format(file=file.name, port=port, table=TABLE, dead_letters=DEAD_LETTERS, **quoted))
    return file


@dataclass(frozen=True, slots=True)
class Numbers:
    """How much is in a lake, at one snapshot."""

    rows: int = 0
    dead_letters: int = 0
    snapshots: int = 0

    @property
    def records(self) -> int:
        return self.rows + self.dead_letters


class LakeReader:
    """Looks into a lake that somebody else creates and fills."""

    def __init__(self, catalog: str) -> None:
        self._catalog = catalog
        self._lake: Lake | None = None

    def numbers(self) -> Numbers:
        """Return what is there now; zeros before there is a lake."""
        try:
            lake = self._open()
        except NoLakeFound:
            return Numbers()
        snapshots = lake.snapshots()
        head = snapshots[-1].snapshot_id
        return Numbers(_count(lake, TABLE, head), _count(lake, DEAD_LETTERS, head), len(snapshots))

    def places(self, table: str) -> list[Place]:
        """Return where in Kafka each row of a table came from."""
        rows = self._open().table(table).read(columns=list(_PLACE)).select(_PLACE).to_pylist()
        return [(row["topic"], row["partition"], row["offset"]) for row in rows]

    def reasons(self) -> dict[Place, str]:
        """Return why each dead letter is one."""
        rows = self._open().table(DEAD_LETTERS).read(columns=[*_PLACE, "reason"]).to_pylist()
        return {(row["topic"], row["partition"], row["offset"]): row["reason"] for row in rows}

    def close(self) -> None:
        if self._lake is not None:
            self._lake.close()

    def _open(self) -> Lake:
        if self._lake is None:
            self._lake = Lake.open(self._catalog, recorder=_Silence())
        return self._lake


class _Silence:
    """A recorder that keeps to itself what happens: the job's own log has it."""

    def record(self, event: Event) -> None:
        """Take notice of nothing."""


@dataclass(frozen=True, slots=True)
class Sums:
    """What was produced, and what became of it."""

    produced: Mapping[Place, str | None]
    stored: Sequence[Place]
    dead: Sequence[Place]
    reasons: Mapping[Place, str]

    def problems(self) -> Iterator[str]:
        """Yield what is not as it must be: each good record once in the table, each broken one once in dead letters."""
        good = [place for place, broken in self.produced.items() if broken is None]
        broken = [place for place, broken in self.produced.items() if broken is not None]
        yield from _differences("the table", Counter(self.stored), Counter(good))
        yield from _differences("dead letters", Counter(self.dead), Counter(broken))


def _differences(where: str, found: Counter[Place], expected: Counter[Place]) -> Iterator[str]:
    if lost := expected - found:
        yield f"{lost.total()} records are not in {where}, such as {min(lost)}"
    if extra := found - expected:
        yield f"{extra.total()} records are in {where} too often, such as {min(extra)}"


def _count(lake: Lake, table: str, at: int) -> int:
    try:
        return lake.table(table, at=at).count()
    except ObjectNotFound:
        return 0
