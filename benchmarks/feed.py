"""How long a change feed takes: to read many changes, by us and by the DuckDB extension, and to plan one snapshot.

Run as `make bench-feed`. All read the same lake and take turns; medians are compared. No time is asserted: README.md
has some.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from duckdb import DuckDBPyConnection
from sqlalchemy import text

from benchmarks.contenders import Place, Places
from ducklake_core import Lake
from ducklake_core.feed.listing import FeedRequest, list_range
from ducklake_core.feed.rows import read_changes
from ducklake_core.feed.sharing import share_out
from ducklake_core.feed.task import ChangeTask
from ducklake_core.files.storage import Storage
from ducklake_core.model import SnapshotId, SnapshotSpan
from tests.fixtures.oracle import Oracle
from tests.fixtures.oracle_worker import connect
from tests.fixtures.postgres import run_postgres

TABLE = "t"
PROCESSES = 2
_COLUMNS = "id BIGINT, name VARCHAR, made_at TIMESTAMPTZ, amount DOUBLE, is_open BOOLEAN, note VARCHAR"
_VALUES = "i, 'name ' || i % 1000, make_timestamptz(i * 1000000), i / 7, i % 2 = 0, 'note of ' || i"


@dataclass(frozen=True, slots=True)
class Reading:
    """The median seconds of reading all changes of a lake."""

    catalog: str
    changes: str
    rows: int
    snapshots: int
    ours_seconds: float
    two_processes_seconds: float
    extension_seconds: float


@dataclass(frozen=True, slots=True)
class Planning:
    """The median milliseconds of planning one new snapshot, an append of one file, after so many others."""

    catalog: str
    snapshots: int
    milliseconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    readings, plannings = [], []
    for catalog in options.catalogs:
        with _places(catalog) as places, ExitStack() as stack:
            pools = [stack.enter_context(_processes(count)) for count in (PROCESSES, 1)]
            readings += [measure_reading(catalog, places, pools, c, options) for c in options.changes]
            plannings += [measure_planning(catalog, places, count, options.plans) for count in options.history]
    if options.json:
        found = {"readings": [*map(asdict, readings)], "plannings": [*map(asdict, plannings)]}
        print(json.dumps(found, indent=2))
    else:
        print("\n".join([*_reading_lines(readings), "", *_planning_lines(plannings)]))


# ------------------------------------------------------------------------------------------ reading


def measure_reading(
    catalog: str, places: Places, pools: Sequence[ProcessPoolExecutor], changes: str, options: argparse.Namespace
) -> Reading:
    """Return the medians of some rounds in which the contenders take turns, each beginning once."""
    place = places.make()
    _fill(place, changes, options.rows, options.snapshots)
    readers, duckdb = pools
    with Lake.open(place.url) as lake:
        head = lake.snapshots()[-1].snapshot_id
        span = SnapshotSpan(SnapshotId(head - options.snapshots), head)
        contenders: dict[str, Callable[[], tuple[float, int]]] = {
            "ours": lambda: _timed(lambda: lake.changes(TABLE, span.start + 1, span.end).num_rows),
            "two_processes": lambda: _timed(lambda: _read_in_processes(lake, span, readers)),
            "extension": lambda: duckdb.submit(_extension_changes, place.attach, span).result(),
        }
        seconds = _take_turns(contenders, options.rounds, options.rows)
    return Reading(
        catalog, changes, options.rows, options.snapshots, *(round(median(found), 3) for found in seconds.values())
    )


def _processes(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"))


def _take_turns(
    contenders: Mapping[str, Callable[[], tuple[float, int]]], rounds: int, rows: int
) -> dict[str, list[float]]:
    """Let each warm up once, then begin in turn; every one must find all rows."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(-1, rounds):
        first = max(0, number) % len(names)
        for name in [*names[first:], *names[:first]]:
            taken, found = contenders[name]()
            assert found == rows, f"{name} found {found} of {rows} rows"
            if number >= 0:
                seconds[name].append(taken)
    return seconds


def _fill(place: Place, changes: str, rows: int, snapshots: int) -> None:
    """Make a lake whose last snapshots change so many rows: each inserts a file, or updates rows that were there."""
    part = rows // snapshots
    with Oracle() as oracle:
        oracle.attach(place.attach, data_path=place.data_path)
        oracle.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
        oracle.execute(f"CREATE TABLE {TABLE} ({_COLUMNS})")
        if changes == "inserts":
            for first in range(0, rows, part):
                oracle.execute(f"INSERT INTO {TABLE} SELECT {_VALUES} FROM range({first}, {first + part}) r(i)")
            return
        oracle.execute(f"INSERT INTO {TABLE} SELECT {_VALUES} FROM range({rows // 2}) r(i)")
        for first in range(0, rows // 2, part // 2):  # an update is two changes
            where = f"id >= {first} AND id < {first + part // 2}"
            oracle.execute(f"UPDATE {TABLE} SET amount = amount + 1 WHERE {where}")


def _read_in_processes(lake: Lake, span: SnapshotSpan, pool: ProcessPoolExecutor) -> int:
    found = lake.table(TABLE)
    task = list_range(lake.database, FeedRequest(found.version, found.version.columns, span)).task
    parts = share_out(task, max(1, -(-task.rows // (2 * PROCESSES))))
    return sum(pool.map(_count_changes, [lake.data_path] * len(parts), parts))


def _count_changes(data_path: str, task: ChangeTask) -> int:
    return sum(record_batch.num_rows for record_batch in read_changes(Storage.of(data_path), task))


def _extension_changes(attach: str, span: SnapshotSpan) -> tuple[float, int]:
    """Collect the same changes as Arrow in a warm session of DuckDB, in this process."""
    connection = _attached(attach)
    query = f"FROM ducklake_table_changes('lake', 'main', '{TABLE}', {span.start + 1}, {span.end})"
    return _timed(lambda: connection.sql(query).to_arrow_table().num_rows)


@cache
def _attached(attach: str) -> DuckDBPyConnection:
    connection = connect()
    connection.execute(f"SET threads = {PROCESSES}; SET enable_progress_bar = false")
    connection.execute(f"ATTACH '{attach}' AS lake")
    return connection


def _timed(work: Callable[[], int]) -> tuple[float, int]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


# ----------------------------------------------------------------------------------------- planning


def measure_planning(catalog: str, places: Places, snapshots: int, plans: int) -> Planning:
    """Return the median of planning the newest snapshot again and again."""
    place = places.make()
    with Lake.create(place.url, place.data_path) as lake:
        lake.create_table(TABLE, {"id": "int64"})
        _append_by_hand(lake, snapshots)
        found = lake.table(TABLE)
        head = found.snapshot.snapshot_id
        request = FeedRequest(found.version, found.version.columns, SnapshotSpan(SnapshotId(head - 1), head))
        assert len(list_range(lake.database, request).task.files) == 1
        seconds = [_timed(lambda: len(list_range(lake.database, request).task.files))[0] for _ in range(plans)]
    return Planning(catalog, snapshots, round(1000 * median(seconds), 2))


def _append_by_hand(lake: Lake, snapshots: int) -> None:
    """Register so many files, each in a snapshot of its own; nobody will read them."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :snapshots)"
    columns = {
        "ducklake_snapshot": "snapshot_id, snapshot_time, schema_version, next_catalog_id, next_file_id",
        "ducklake_snapshot_changes": "snapshot_id, changes_made",
        "ducklake_data_file": "data_file_id, table_id, begin_snapshot, path, path_is_relative, file_format, "
        "record_count, file_size_bytes, row_id_start",
    }
    values = {
        "ducklake_snapshot": "1 + i, (SELECT max(snapshot_time) FROM ducklake_snapshot), 1, 2, i",
        "ducklake_snapshot_changes": "1 + i, 'inserted_into_table:1'",
        "ducklake_data_file": "i - 1, 1, 1 + i, 'f' || i || '.parquet', true, 'parquet', 1, 1, i",
    }
    statements = [f"INSERT INTO {t} ({columns[t]}) {numbers} SELECT {values[t]} FROM n" for t in columns]
    with lake.database.engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement), {"snapshots": snapshots})
        connection.execute(text("ANALYZE"))
        connection.commit()


# ------------------------------------------------------------------------------------------ output


def _reading_lines(found: Sequence[Reading]) -> Iterator[str]:
    yield "| catalog | changes | rows | snapshots | ours s | two processes s | extension s | extension ÷ ours | ÷ two |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|"
    for r in found:
        times = f"{r.ours_seconds:.2f} | {r.two_processes_seconds:.2f} | {r.extension_seconds:.2f}"
        ratios = [r.extension_seconds / seconds for seconds in (r.ours_seconds, r.two_processes_seconds)]
        yield f"| {r.catalog} | {r.changes} | {r.rows} | {r.snapshots} | {times} | {ratios[0]:.1f} | {ratios[1]:.1f} |"


def _planning_lines(found: Sequence[Planning]) -> Iterator[str]:
    yield "| catalog | snapshots and files | planning one more ms |"
    yield "|---|--:|--:|"
    for one in found:
        yield f"| {one.catalog} | {one.snapshots} | {one.milliseconds:.2f} |"


@contextmanager
def _places(catalog: str) -> Iterator[Places]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield Places(directory, stack.enter_context(run_postgres()) if catalog == "postgres" else None)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-feed", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--catalogs", nargs="+", choices=["postgres", "sqlite"], default=["postgres"])
    parser.add_argument("--changes", nargs="*", choices=["inserts", "updates"], default=["inserts"])
    parser.add_argument("--rows", type=int, default=1_000_000, help="changed rows to be read")
    parser.add_argument("--snapshots", type=int, default=100, help="snapshots that changed them")
    parser.add_argument("--rounds", type=int, default=5, help="readings by each contender")
    parser.add_argument(
        "--history", nargs="*", type=int, default=[100, 50_000], help="snapshots before the planned one"
    )
    parser.add_argument("--plans", type=int, default=100, help="plans of one snapshot")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
