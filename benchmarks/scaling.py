"""What each part of a lake costs, and how many commits one PostgreSQL takes from many streams. `make bench-scaling`.

Prints JSON, from which `scaling_model.py` finds limits; `--write` puts it into `scaling_measured.json`, and the tables
that follow from it into `docs/scaling.md`. Commits of many streams are counted in a fixed time, in rounds whose median
counts; of all else the fastest round counts, since other programs only make it slower. Of each series some points are
`checks`: the model does not see them, and must predict them.
"""

from __future__ import annotations

import argparse
import json
import pickle
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from benchmarks.contenders import TABLE, Place, Places, make_lake
from benchmarks.readings import SCHEMA, make_readings
from benchmarks.scaling_model import MEASURED, Costs, prediction_lines
from benchmarks.scaling_page import PAGE, error_lines, write_page
from benchmarks.scaling_streams import SERVER, Found, measure_commits
from ducklake_core import Lake
from ducklake_core.files.parquet_writer import write_data_files
from ducklake_core.model import NewDataFile
from ducklake_core.observe import NO_RECORDER
from ducklake_sinks.task_writer import Message, TaskResult
from tests.fixtures.postgres import run_postgres

ROWS = 10
CHECKS = {"commits_per_second": [8, 64], "group": [8], "register": [100], "plan": [3000]}
CHECKS |= {"message": [10], "file_bytes": [12]}


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = Places(directory, stack.enter_context(run_postgres(SERVER)))
        text = json.dumps(measure(places, options.streams, options.seconds, options.rounds, options.scale), indent=2)
    measured = json.loads(text)
    if options.write:
        MEASURED.write_text(text + "\n")
        write_page(measured, PAGE)
    costs = Costs.fit(measured)
    print("\n".join([text, "", *error_lines(costs, measured), "", *prediction_lines(costs)]))


def measure(places: Places, streams: Sequence[int], seconds: float, rounds: int, scale: float) -> dict[str, object]:
    """Measure everything; `scale` makes the counts of files and tables smaller, for tests."""
    contention = _in_turns(places, streams, seconds, rounds)
    sizes = catalog_bytes(places, max(20, int(500 * scale)))
    return {
        "commits_per_second": {n: round(found.per_second, 2) for n, found in contention.items()},
        "attempts_per_commit": {n: round(found.attempts / max(1, found.commits), 2) for n, found in contention.items()},
        "commit_ms_median": {n: round(found.median_ms, 2) for n, found in contention.items()},
        "commit_ms_p99": {n: round(found.p99_ms, 2) for n, found in contention.items()},
        "group": commit_ms_by_tables(places.make(), (1, 4, 8, 16)),
        "register": commit_ms_by_files(places.make(), _scaled((1, 10, 100, 1000), scale)),
        "plan": plan_ms_by_files(places.make(), _scaled((100, 1000, 3000, 6000), scale)),
        "open": open_ms_by_tables(places.make(), _scaled((10, 300, 1000, 2000), scale)),
        "message": message_bytes(places.make(), (1, 10, 100)),
        **sizes,
        "checks": {name: _scaled(found, _scale_of(name, scale)) for name, found in CHECKS.items()},
    }


def _in_turns(places: Places, streams: Sequence[int], seconds: float, rounds: int) -> dict[int, Found]:
    """Return the median round of each number of streams. They take turns: what else the machine does falls on all."""
    found: dict[int, list[Found]] = {n: [] for n in streams}
    for number in range(rounds * len(streams)):
        n = streams[number % len(streams)]
        found[n].append(measure_commits(places.make(), n, seconds))
    return {n: sorted(some, key=lambda one: one.per_second)[len(some) // 2] for n, some in found.items()}


def _scale_of(name: str, scale: float) -> float:
    return scale if name in ("register", "plan", "open") else 1


def _scaled(counts: Sequence[int], scale: float) -> list[int]:
    return [max(1, int(count * scale)) for count in counts]


def commit_ms_by_tables(place: Place, counts: Sequence[int]) -> dict[int, float]:
    """One commit of ten rows in each of some tables: what streams cost that commit together."""
    readings = make_readings(ROWS)
    with make_lake(place) as lake:
        for number in range(max(counts)):
            lake.create_table(f"t{number}", SCHEMA)

        def commit(count: int) -> None:
            with lake.transaction() as tx:
                for number in range(count):
                    tx.append(f"t{number}", readings)

        return {count: _fastest_ms(lambda: commit(count)) for count in counts}  # noqa: B023 # called at once


def commit_ms_by_files(place: Place, counts: Sequence[int]) -> dict[int, float]:
    """One commit that registers files of executors."""
    with make_lake(place) as lake:
        file = _written_file(lake)

        def commit(count: int) -> None:
            with lake.transaction() as tx:
                tx.append_files(TABLE, _copies(file, count))

        return {count: _fastest_ms(lambda: commit(count), rounds=7) for count in counts}  # noqa: B023 # called at once


def plan_ms_by_files(place: Place, counts: Sequence[int]) -> dict[int, float]:
    """What it takes to plan a read of a table with so many files."""
    found: dict[int, float] = {}
    with make_lake(place) as lake:
        file, there = _written_file(lake), 0
        for count in counts:
            with lake.transaction() as tx:
                tx.append_files(TABLE, _copies(file, count - there))
            there = count
            found[count] = _fastest_ms(lambda: lake.table(TABLE).slices(), rounds=5)
    return found


def open_ms_by_tables(place: Place, counts: Sequence[int]) -> dict[int, float]:
    """What it takes to open a lake with so many tables and to find one of them."""
    found: dict[int, float] = {}
    with make_lake(place) as lake:
        there = 1
        for count in counts:
            with lake.transaction() as tx:
                for number in range(there, count):
                    tx.create_table(f"t{number}", SCHEMA)
            there = max(there, count)

            def look() -> None:
                with Lake.open(place.url, recorder=NO_RECORDER) as other:
                    other.table(TABLE)

            found[count] = _fastest_ms(look, rounds=5)
    return found


def message_bytes(place: Place, counts: Sequence[int]) -> dict[int, float]:
    """How large the message of a task is that has written so many files."""
    with make_lake(place) as lake:
        file = _written_file(lake)
    own = pickle.dumps(file)  # each has texts of its own: else pickle would write them once
    files = [pickle.loads(own) for _ in range(max(counts))]  # noqa: S301 # written above
    return {n: len(pickle.dumps(TaskResult((Message(TABLE, tuple(files[:n])),)))) for n in counts}


def catalog_bytes(places: Places, count: int) -> dict[str, object]:
    """How much the catalog grows by a snapshot with ten inlined rows that were flushed, a table, and a file."""
    with make_lake(places.make()) as lake:
        before = lake.catalog_size_bytes()
        for _ in range(count):
            lake.append(TABLE, make_readings(1))
        lake.flush_inlined(TABLE)
        snapshots = (lake.catalog_size_bytes() - before) / count
        before = lake.catalog_size_bytes()
        with lake.transaction() as tx:
            for number in range(count):
                tx.create_table(f"t{number}", SCHEMA)
        tables = (lake.catalog_size_bytes() - before) / count
    files = {columns: file_bytes(places.make(), columns, 4 * count) for columns in (4, 12, 40)}
    return {"snapshot_bytes": round(snapshots), "table_bytes": round(tables), "file_bytes": files}


def file_bytes(place: Place, columns: int, count: int) -> float:
    """How much the catalog grows by a file of so many columns."""
    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(columns)])
    with Lake.create(place.url, place.data_path, recorder=NO_RECORDER) as lake:
        lake.create_table(TABLE, schema)
        rows = pa.table({name: pa.array(range(ROWS), pa.int64()) for name in schema.names})
        file = _written_file(lake, rows)
        before = lake.catalog_size_bytes()
        with lake.transaction() as tx:
            tx.append_files(TABLE, _copies(file, count))
        return round((lake.catalog_size_bytes() - before) / count, 1)


def _written_file(lake: Lake, rows: pa.Table | None = None) -> NewDataFile:
    with lake.transaction() as tx:
        [file] = write_data_files(lake.storage, tx.file_layout(TABLE), make_readings(ROWS) if rows is None else rows)
    return file


def _copies(file: NewDataFile, count: int) -> list[NewDataFile]:
    """Return facts of so many files. They are not there: nobody opens them."""
    stamp = time.perf_counter_ns()
    return [replace(file, path=f"{stamp}-{number}-{file.path}") for number in range(count)]


def _fastest_ms(act: Callable[[], object], rounds: int = 15) -> float:
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        act()
        found.append(1000 * (time.perf_counter() - start))
    return round(min(found), 3)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-scaling", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32, 64], help="streams at once")
    parser.add_argument("--seconds", type=float, default=5, help="how long each number of streams commits in a round")
    parser.add_argument("--rounds", type=int, default=5, help="how often all numbers of streams take their turn")
    parser.add_argument("--scale", type=float, default=1, help="smaller counts of files and tables, for a trial")
    parser.add_argument("--write", action="store_true", help="keep the numbers, and write them into docs/scaling.md")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
