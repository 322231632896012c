"""How long a flush of many inlined rows takes on PostgreSQL: ours, and the DuckDB extension's.

Run as `make bench-flush`. Both flush the same readings, in lakes of their own on one server, and take turns; medians
are compared. No time is asserted: README.md has some.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks.contenders import TABLE, Place, Places, make_lake
from benchmarks.readings import make_readings
from ducklake_core import Lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.postgres import run_postgres

BATCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Flushes:
    """The median seconds of each contender's flush of `rows` rows, and how many files ours made."""

    catalog: str
    rows: int
    ours_seconds: float
    extension_seconds: float
    data_files: int


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    found = []
    for catalog in options.catalogs:
        with _places(catalog) as places:
            found += [measure_flushes(catalog, places, rows, options.rounds) for rows in options.rows]
    if options.json:
        print(json.dumps({"flushes": [*map(asdict, found)]}, indent=2))
    else:
        print("\n".join(_lines(found)))


def measure_flushes(catalog: str, places: Places, rows: int, rounds: int) -> Flushes:
    """Return the medians of some rounds; in every other one the extension goes first."""
    ours, theirs, files = [], [], 0
    with make_lake(places.make()) as lake, ExitStack() as stack:
        place = places.make()
        other = stack.enter_context(make_lake(place))
        oracle = stack.enter_context(_attached(place))
        for number in range(rounds):
            _fill(lake, other, rows)
            if number % 2:
                theirs.append(_extension_flush(oracle))
            seconds, files = _our_flush(lake, rows)
            ours.append(seconds)
            if not number % 2:
                theirs.append(_extension_flush(oracle))
            assert other.inlined_state(TABLE).rows == 0
    return Flushes(catalog, rows, round(median(ours), 3), round(median(theirs), 3), files)


def _fill(lake: Lake, other: Lake, rows: int) -> None:
    for first in range(0, rows, BATCH_ROWS):
        readings = make_readings(min(BATCH_ROWS, rows - first))
        lake.append(TABLE, readings)
        other.append(TABLE, readings)


def _our_flush(lake: Lake, rows: int) -> tuple[float, int]:
    start = time.perf_counter()
    result = lake.flush_inlined(TABLE)
    seconds = time.perf_counter() - start
    assert result.rows == rows
    return seconds, result.data_files


def _extension_flush(oracle: Oracle) -> float:
    start = time.perf_counter()
    oracle.execute("CALL ducklake_flush_inlined_data('lake')")
    return time.perf_counter() - start


@contextmanager
def _attached(place: Place) -> Iterator[Oracle]:
    with Oracle() as oracle:
        oracle.attach(place.attach)
        oracle.query(f"SELECT count(*) FROM {TABLE}")
        yield oracle


@contextmanager
def _places(catalog: str) -> Iterator[Places]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield Places(directory, stack.enter_context(run_postgres()) if catalog == "postgres" else None)


def _lines(found: Sequence[Flushes]) -> Iterator[str]:
    yield "| catalog | rows | ours s | extension s | extension ÷ ours |"
    yield "|---|--:|--:|--:|--:|"
    for one in found:
        ratio = one.extension_seconds / one.ours_seconds
        yield f"| {one.catalog} | {one.rows} | {one.ours_seconds:.2f} | {one.extension_seconds:.2f} | {ratio:.1f} |"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-flush", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--catalogs", nargs="+", choices=["postgres", "sqlite"], default=["postgres"])
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 1_000_000], help="rows of a flush")
    parser.add_argument("--rounds", type=int, default=3, help="flushes of each size by each contender")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
