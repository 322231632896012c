"""How long merges of small files and rewrites of files with deletes take: ours, the DuckDB extension's, and the floor.

Run as `make bench-maintenance`. Both have lakes of their own with the same rows in as many files, and take turns;
medians are compared. The floor reads the same files by Arrow and writes their rows into one. No time is asserted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.contenders import TABLE, Place, Places
from benchmarks.readings import SCHEMA, make_readings
from ducklake_core import Lake
from ducklake_core.files.parquet_writer import write_data_files
from ducklake_core.row_writes import file_layout
from tests.fixtures.oracle import Oracle
from tests.fixtures.postgres import run_postgres

_COMMITS = 10  # the files of a lake come in so many snapshots
_DELETED = "gear = 0 AND rpm < 4560"  # a tenth of all readings: of six gears, and of 900 to 7,000 rounds
_SQL = {
    "merge": "CALL ducklake_merge_adjacent_files('lake')",
    "rewrite": "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.05)",
}


@dataclass(frozen=True, slots=True)
class Compactions:
    """The median seconds of each contender for one operation on `files` files of `rows` rows in all."""

    operation: str
    catalog: str
    files: int
    rows: int
    ours_seconds: float
    extension_seconds: float
    floor_seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    found = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(run_postgres()) if options.catalog == "postgres" else None
        places = Places(directory, server)
        for operation, files in (("merge", options.merged_files), ("rewrite", options.rewritten_files)):
            found.append(measure(operation, places, options.catalog, files, options.rows, options.rounds))
    if options.json:
        print(json.dumps({"compactions": [*map(asdict, found)]}, indent=2))
    else:
        print("\n".join(_lines(found)))


def measure(operation: str, places: Places, catalog: str, files: int, rows: int, rounds: int) -> Compactions:
    """Return the medians of some rounds; in every other one the extension goes first."""
    ours: list[float] = []
    theirs: list[float] = []
    floor: list[float] = []
    for number in range(rounds):
        mine, other = places.make(), places.make()
        for place in (mine, other):
            _fill(place, files, rows, with_deletes=operation == "rewrite")
        floor.append(_floor(mine))
        contenders: list[tuple[list[float], Callable[[], float]]] = [
            (ours, lambda: _our_seconds(mine, operation, files)),  # noqa: B023 # called in this round
            (theirs, lambda: _extension_seconds(other, operation, files)),  # noqa: B023 # likewise
        ]
        for seconds, contender in contenders[:: -1 if number % 2 else 1]:
            seconds.append(contender())
    times = [round(median(found), 3) for found in (ours, theirs, floor)]
    return Compactions(operation, catalog, files, rows, *times)


def _fill(place: Place, files: int, rows: int, *, with_deletes: bool) -> None:
    with Lake.create(place.url, place.data_path) as lake:
        lake.create_table(TABLE, SCHEMA)
        lake.set_option("data_inlining_row_limit", 0)
        some = [make_readings(rows // files) for _ in range(min(files, 20))]
        for first in range(0, files, max(1, files // _COMMITS)):
            with lake.transaction() as tx:
                layout = file_layout(tx.table_version(TABLE), lake.definitions().options_of(tx.table_version(TABLE)))
                for number in range(first, min(files, first + max(1, files // _COMMITS))):
                    tx.append_files(TABLE, write_data_files(lake.storage, layout, some[number % len(some)]))
        if with_deletes:
            lake.delete(TABLE, _DELETED)


def _our_seconds(place: Place, operation: str, files: int) -> float:
    with Lake.open(place.url) as lake:
        lake.table(TABLE).count()  # as warm as the other
        start = time.perf_counter()
        if operation == "merge":
            report = lake.merge_adjacent_files(TABLE)
        else:
            report = lake.rewrite_data_files(TABLE, delete_threshold=0.05)
        seconds = time.perf_counter() - start
    assert report.total.files_before == files, report
    return seconds


def _extension_seconds(place: Place, operation: str, files: int) -> float:
    with Oracle() as oracle:
        oracle.attach(place.attach)
        oracle.query(f"SELECT count(*) FROM {TABLE}")
        start = time.perf_counter()
        found = oracle.query(_SQL[operation])
        seconds = time.perf_counter() - start
    assert sum(row[2] for row in found) == files, found
    return seconds


def _floor(place: Place) -> float:
    """Read all files as Arrow does it best, and write their rows as it does by itself."""
    paths = sorted(Path(place.data_path).rglob("*.parquet"))
    paths = [path for path in paths if not path.name.endswith("-delete.parquet")]
    start = time.perf_counter()
    with ThreadPoolExecutor(2) as readers:
        tables = list(readers.map(lambda path: pq.read_table(path, partitioning=None), paths))
    pq.write_table(pa.concat_tables(tables), f"{place.data_path}floor.arrow", row_group_size=122_880)
    return time.perf_counter() - start


def _lines(found: Sequence[Compactions]) -> Iterator[str]:
    yield "| operation | catalog | files | rows | ours s | extension s | floor s | extension ÷ ours | ours ÷ floor |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|"
    for one in found:
        times = f"{one.ours_seconds:.2f} | {one.extension_seconds:.2f} | {one.floor_seconds:.2f}"
        ratios = f"{one.extension_seconds / one.ours_seconds:.1f} | {one.ours_seconds / one.floor_seconds:.1f}"
        yield f"| {one.operation} | {one.catalog} | {one.files} | {one.rows} | {times} | {ratios} |"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-maintenance", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--catalog", choices=["postgres", "sqlite"], default="postgres")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of all files together")
    parser.add_argument("--merged-files", type=int, default=1000, help="files of a merge")
    parser.add_argument("--rewritten-files", type=int, default=20, help="files of a rewrite")
    parser.add_argument("--rounds", type=int, default=3, help="so often each is measured")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
