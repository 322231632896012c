"""What `status` shows: everything that an operator asks first, gathered in one pass, as sections of rows. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from ducklake_streaming.overview import consumers, snapshots, streams
from ducklake_streaming.overview.fields import Field, Row
from ducklake_streaming.overview.maintenance_runs import RUN_FIELDS, run_row
from ducklake_streaming.overview.streams import StreamFacts, read_recent
from ducklake_streaming.overview.values import shown_age, shown_count, shown_size, shown_time

if TYPE_CHECKING:
    from ducklake_core import Lake, MaintenanceRun
    from ducklake_core.model import Consumer, LakeTotals, TableTotals

Found = TypeVar("Found")

# What every table of dead letters has had from the beginning.
_DEAD_LETTER_COLUMNS = ("stream", "batch_id", "table_name", "reason", "row", "quarantined_at")
_RUNS = 10  # of maintenance: a run of all operations, and a few tables
_SNAPSHOTS = 10
LAKE_FIELDS = (
    Field("catalog", "lake"),
    Field("data_path", "files under"),
    Field("snapshot", "snapshot", shown_count),
    Field("time", "its time", shown_time),
    Field("age_seconds", "its age", shown_age),
    Field("snapshots", "snapshots", shown_count),
    Field("oldest_age_seconds", "oldest is of", lambda age: f"{shown_age(age)} ago"),
)
TABLE_FIELDS = (
    Field("table", "table"),
    Field("rows", "rows", shown_count, is_number=True),
    Field("files", "files", shown_count, is_number=True),
    Field("small_files", "small", shown_count, is_number=True),
    Field("file_bytes", "size", shown_size, is_number=True),
    Field("deleted_rows", "deletes", shown_count, is_number=True),
    Field("inlined_rows", "inlined", shown_count, is_number=True),
    Field("inlined_bytes", "size", shown_size, is_number=True),
    Field("inlined_age_seconds", "oldest", shown_age, is_number=True),
)
DEAD_LETTER_FIELDS = (Field("table", "table"), Field("rows", "rows", shown_count, is_number=True))
LAG_FIELDS = (
    Field("stream", "stream"),
    Field("topic", "topic"),
    Field("partition", "partition", is_number=True),
    Field("lag_records", "behind", shown_count, is_number=True),
    Field("problem", ""),
)


class Ask(Protocol):
    """Asks one question of the catalog, which has a name."""

    def __call__(self, name: str, question: Callable[[], Found], /) -> Found: ...


def ask_plainly(_: str, question: Callable[[], Found]) -> Found:
    return question()


@dataclass(frozen=True, slots=True)
class Section:
    """Some rows of one kind under a title; `empty` is said where there are none."""

    kind: str
    title: str
    fields: Sequence[Field]
    rows: Sequence[Row]
    empty: str


@dataclass(frozen=True, slots=True)
class LakeState:
    """A lake at one moment: itself, its streams, tables, consumers, last snapshots, dead letters and last maintenance.

    The rows are what is shown; the others are the values that they were made of, for who counts.
    """

    lake: Row
    sections: tuple[Section, ...]
    streams: tuple[StreamFacts, ...]
    totals: LakeTotals
    consumers: tuple[Consumer, ...]
    runs: tuple[MaintenanceRun, ...]


def read_state(
    lake: Lake, small_file_bytes: int, now: datetime, ask: Ask = ask_plainly, max_runs: int = _RUNS
) -> LakeState:
    """Ask the lake; it only reads, in a number of questions that does not grow with the tables.

    `ask` is given each question and its name: who measures how long they take passes one in.
    """
    totals = ask("totals", lambda: lake.totals(small_file_bytes))
    found, newest = ask("streams", lambda: read_recent(lake))
    kept = ask("dead_letters", lambda: lake.tables_with_columns(_DEAD_LETTER_COLUMNS))
    dead_letters = [{"table": one.name, "rows": one.rows} for one in totals.tables if one.table_id in kept]
    known = ask("consumers", lambda: tuple(lake.consumers()))
    done = ask("runs", lambda: tuple(lake.maintenance_runs(max_runs)))
    readers = consumers.consumer_rows(known, totals, now)
    runs = [run_row(run) for run in done[:_RUNS]]
    names: dict[int, str] = {one.table_id: one.name for one in totals.tables}
    recent = [snapshots.recent_row(one, names, now) for one in newest[: -_SNAPSHOTS - 1 : -1]]
    sections = (
        Section("stream", "Streams", streams.FIELDS, [one.row(now) for one in found], "none has written to this lake"),
        Section("table", "Tables", TABLE_FIELDS, [_table_row(one, now) for one in totals.tables], "none"),
        Section("consumer", "Consumers of changes", consumers.FIELDS, readers, "none"),
        Section("dead_letters", "Dead letters", DEAD_LETTER_FIELDS, dead_letters, "no table for them"),
        Section("maintenance", "Last maintenance", RUN_FIELDS, runs, "none was recorded"),
        Section("snapshot", "Recent snapshots", snapshots.RECENT_FIELDS, recent, "none"),
    )
    return LakeState(_lake_row(lake, totals, now), sections, tuple(found), totals, known, done)


def json_rows(state: LakeState) -> Iterator[Row]:
    """Yield everything as one object each, which says what it is of."""
    yield {"kind": "lake", **state.lake}
    for section in state.sections:
        for row in section.rows:
            yield {"kind": section.kind, **row}


def _lake_row(lake: Lake, totals: LakeTotals, now: datetime) -> Row:
    return {
        "catalog": lake.database.url.shown,
        "data_path": lake.data_path,
        "snapshot": totals.head.snapshot_id,
        "time": totals.head.snapshot_time,
        "age_seconds": _age(totals.head.snapshot_time, now),
        "snapshots": totals.snapshots,
        "oldest_snapshot": totals.oldest.snapshot_id,
        "oldest_age_seconds": _age(totals.oldest.snapshot_time, now),
    }


def _table_row(table: TableTotals, now: datetime) -> Row:
    return {
        "table": table.name,
        "rows": table.rows,
        "files": table.files,
        "small_files": table.small_files,
        "file_bytes": table.file_bytes,
        "delete_files": table.delete_files,
        "deleted_rows": table.deleted_rows,
        "inlined_rows": table.inlined.rows,
        "inlined_deletes": table.inlined.file_deletes,
        "inlined_bytes": table.inlined.size_bytes,
        "inlined_age_seconds": _age(table.inlined.oldest, now),
    }


def _age(time: datetime | None, now: datetime) -> float | None:
    return None if time is None else round((now - time).total_seconds(), 1)
