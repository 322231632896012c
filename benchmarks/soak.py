"""Does a lake stay fast by itself? Many small commits with flushes and maintenance beside them. Run as `make soak`.

One process commits ten rows again and again to a table on PostgreSQL. A thread flushes by a policy, as a sink's does,
and another maintains the lake, as a job's does. After some commits and at the end it is measured what an operator and
a reader notice: files, snapshots, bytes of the catalog, how long a commit and a first query take. It prints both, and
whether the end is within 1.3 times; of files, within as many as merges leave. The server's autovacuum looks every
second, since all is quicker here than in a real lake.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from math import log2
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Self

import psycopg
import pyarrow as pa

from ducklake_core import Lake
from ducklake_core.log_lines import line_of
from ducklake_core.observe import NO_RECORDER, Event
from ducklake_sinks import FlushPolicy
from ducklake_sinks.governor import FlushGovernor
from ducklake_streaming.jobs.maintainer import Maintainer
from ducklake_streaming.jobs.maintenance_settings import MaintenanceSettings
from ducklake_streaming.maintenance.maintain import run_operations
from ducklake_streaming.maintenance.runners import run_in_process
from tests.fixtures.oracle import Oracle
from tests.fixtures.postgres import FAST_AND_FRAGILE, PostgresDatabase, run_postgres

TABLE = "readings"
ROWS = 10
FLAT = 1.3
FLUSHED_ROWS = 1000
KEPT_SNAPSHOTS = 500
SETTINGS = {**FAST_AND_FRAGILE, "autovacuum_naptime": "1s"}
_LAST_COMMITS = 500  # whose times count
_QUERIES = 7
_CATALOG_BYTES = """
    SELECT sum(pg_total_relation_size(oid)) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""


@dataclass(frozen=True, slots=True)
class State:
    """What a lake is like after so many commits; `stored_files` are those in storage, with those that are to go."""

    commits: int
    rows: int
    files: int
    stored_files: int
    snapshots: int
    catalog_bytes: int
    commit_milliseconds: float
    query_milliseconds: float
    duckdb_query_milliseconds: float


MEASURED = {
    "files": "live files",
    "stored_files": "files in storage",
    "snapshots": "snapshots",
    "catalog_bytes": "bytes of the catalog",
    "commit_milliseconds": "ms of a commit",
    "query_milliseconds": "ms of a first query",
    "duckdb_query_milliseconds": "ms of a first query by DuckDB",
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    early, late, failures = run_soak(options.compare, options.commits, options.rate)
    if options.json:
        found = {"early": asdict(early), "late": asdict(late), "ratios": ratios(early, late), "failures": failures}
        print(json.dumps(found, indent=2))
    else:
        print("\n".join([*_lines(early, late), *failures]))
    return 0 if is_flat(early, late) else 1


def run_soak(compare: int, commits: int, rate: float) -> tuple[State, State, list[str]]:
    """Return the lake's state after `compare` commits and after all, and what failed beside them.

    `rate`: so many commits in a second at most.
    """
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        database = stack.enter_context(run_postgres(SETTINGS)).create_database()
        soak = stack.enter_context(Soak(database, Path(directory), rate))
        soak.commit(compare)
        early = soak.measure()
        soak.commit(commits)
        return early, soak.measure(), soak.failures


class Soak:
    """A lake that is written to, with what keeps it fast beside it. Use it in a `with` block."""

    def __init__(self, database: PostgresDatabase, directory: Path, rate: float) -> None:
        self._rest = 1 / rate
        self.failures: list[str] = []
        self._database = database
        self._data = directory / "data"
        self._lake = Lake.create(database.url, f"{self._data}/", recorder=NO_RECORDER)
        self._lake.set_option("data_inlining_row_limit", FLUSHED_ROWS)
        self._lake.create_table(TABLE, {"id": "int64", "vehicle": "varchar", "speed": "float64"})
        self._governor = FlushGovernor(FlushPolicy(rows=FLUSHED_ROWS, age="5s"), self._open, recorder=self)
        settings = {"every": "1s", "expire_older_than": 0, "keep_last": KEPT_SNAPSHOTS, "cleanup_older_than": 0}
        self._settings = MaintenanceSettings.parse({**settings, "share": 1, "orphans": "leave"})
        self._maintainer = Maintainer(self._settings, self._open, self, threading.Event())
        self._seconds: list[float] = []

    def __enter__(self) -> Self:
        self._maintainer.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._maintainer.end()
        self._governor.close()
        self._lake.close()

    def record(self, event: Event) -> None:
        """Keep what went wrong beside the commits."""
        if event.severity() >= logging.ERROR:
            self.failures.append(line_of(event.line, event.facts()))

    def commit(self, until: int) -> None:
        """Commit ten rows at a time, up to so many commits in all."""
        while len(self._seconds) < until:
            first = ROWS * len(self._seconds)
            ids = range(first, first + ROWS)
            rows = pa.table({"id": ids, "vehicle": [f"v{i % 100}" for i in ids], "speed": [i % 130 / 1.0 for i in ids]})
            self._governor.wait_if_behind()  # as a sink does before a batch
            begun = time.perf_counter()
            self._lake.append(TABLE, rows)
            self._seconds.append(time.perf_counter() - begun)
            self._governor.note(TABLE, ROWS, rows.nbytes)
            time.sleep(max(0.0, self._rest - self._seconds[-1]))

    def measure(self) -> State:
        """Let maintenance end its work, and return what the lake is like then."""
        self._settle()
        totals = self._lake.totals()
        [table] = totals.tables
        assert table.rows == ROWS * len(self._seconds)
        with psycopg.connect(self._database.conninfo) as connection:
            [size] = connection.execute(_CATALOG_BYTES).fetchone() or (0,)
        return State(
            commits=len(self._seconds),
            rows=table.rows,
            files=table.files,
            stored_files=sum(1 for _ in self._data.rglob("*.parquet")),
            snapshots=totals.snapshots,
            catalog_bytes=int(size),
            commit_milliseconds=_milliseconds(self._seconds[-_LAST_COMMITS:]),
            query_milliseconds=_milliseconds([self._query() for _ in range(_QUERIES)]),
            duckdb_query_milliseconds=_milliseconds([self._duckdb_query() for _ in range(_QUERIES)]),
        )

    def _settle(self) -> None:
        """Do what the threads would do within seconds, once the lease is free."""
        request = self._settings.request()
        while any(r.held_back for r in run_operations(self._lake, request, run_in_process)):
            time.sleep(0.1)

    def _open(self) -> Lake:
        return Lake.open(self._database.url, recorder=self)

    def _query(self) -> float:
        """Return how long a new reader takes for the last commit's rows."""
        begun = time.perf_counter()
        with Lake.open(self._database.url, recorder=NO_RECORDER) as lake:
            found = lake.table(TABLE).read(["speed"], filter=self._newest())
        assert found.num_rows == ROWS
        return time.perf_counter() - begun

    def _duckdb_query(self) -> float:
        with Oracle() as oracle:
            oracle.execute("LOAD ducklake; LOAD postgres")
            begun = time.perf_counter()
            oracle.attach(self._database.attach)
            found = oracle.query(f"SELECT speed FROM {TABLE} WHERE {self._newest()}")
            seconds = time.perf_counter() - begun
        assert len(found) == ROWS
        return seconds

    def _newest(self) -> str:
        return f"id >= {ROWS * (len(self._seconds) - 1)}"


_FILES = ("files", "stored_files")


def ratios(early: State, late: State) -> dict[str, float]:
    """Return how many times as much each is at the end."""
    return {name: getattr(late, name) / max(getattr(early, name), 1e-9) for name in MEASURED}


def is_flat(early: State, late: State) -> bool:
    return not steep(early, late)


def steep(early: State, late: State) -> list[str]:
    """Return what has grown by too much.

    Files may also grow by one for each time that the rows have doubled: merges leave as many (`plan/file_groups.py`).
    """
    more_files = log2(late.rows / early.rows)
    return [
        name
        for name, ratio in ratios(early, late).items()
        if ratio > FLAT and not (name in _FILES and getattr(late, name) <= getattr(early, name) + more_files)
    ]


def _lines(early: State, late: State) -> Iterator[str]:
    yield f"| | after {early.commits:,} commits | after {late.commits:,} commits | ratio | flat |"
    yield "|---|--:|--:|--:|---|"
    too_steep = steep(early, late)
    for name, ratio in ratios(early, late).items():
        before, after = getattr(early, name), getattr(late, name)
        yield f"| {MEASURED[name]} | {before:,} | {after:,} | {ratio:.2f} | {'NO' if name in too_steep else 'yes'} |"
    yield ""
    verdict = "Not all is flat" if too_steep else "All is flat"
    yield f"{verdict}: within {FLAT} times of what it was, and one more file at most each time the rows double."


def _milliseconds(seconds: Sequence[float]) -> float:
    return round(1000 * median(seconds), 2)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--commits", type=int, default=20_000, help="how many in all")
    parser.add_argument("--compare", type=int, default=2_000, help="with what it was after so many")
    parser.add_argument(
        "--rate", type=float, default=200, help="commits per second at most; maintenance runs each second"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
