"""How long a flush of many inlined rows takes on PostgreSQL: ours, the DuckDB extension's, and the server alone.

Run as `make bench-flush`. All take the same readings, in lakes of their own on one server, and take turns; medians are
compared. The server alone sends the rows by COPY to who looks at none of them, and deletes them: the floor of who
reads by one connection. No time is asserted: README.md has some.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from sqlalchemy import text

from benchmarks.contenders import TABLE, Place, Places, make_lake
from benchmarks.readings import make_readings
from ducklake_core import Lake
from ducklake_core.catalog.postgres.session import on_postgres
from ducklake_core.catalog.session import Statement
from tests.fixtures.oracle import Oracle
from tests.fixtures.postgres import run_postgres

BATCH_ROWS = 10_000
_INLINED = "ducklake_inlined_data_1_1"  # of the only table of a lake


@dataclass(frozen=True, slots=True)
class Flushes:
    """The median seconds of each contender's flush of `rows` rows, and how many files ours made.

    `server_seconds` is None where there is no server.
    """

    catalog: str
    rows: int
    ours_seconds: float
    extension_seconds: float
    server_seconds: float | None
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
    ours, theirs, alone, files = [], [], [], 0
    place = places.make()
    with ExitStack() as stack:
        lake, other, third = (stack.enter_context(make_lake(p)) for p in (places.make(), place, places.make()))
        oracle = stack.enter_context(_attached(place))
        for number in range(rounds):
            _fill([lake, other, third] if places.server else [lake, other], rows)
            if number % 2:
                theirs.append(_extension_flush(oracle))
            seconds, files = _our_flush(lake, rows)
            ours.append(seconds)
            if not number % 2:
                theirs.append(_extension_flush(oracle))
            alone += [_server_alone(third)] if places.server else []
            assert other.inlined_state(TABLE).rows == 0
    server = round(median(alone), 3) if alone else None
    return Flushes(catalog, rows, round(median(ours), 3), round(median(theirs), 3), server, files)


def _fill(lakes: Sequence[Lake], rows: int) -> None:
    for first in range(0, rows, BATCH_ROWS):
        readings = make_readings(min(BATCH_ROWS, rows - first))
        for lake in lakes:
            lake.append(TABLE, readings)


_ALL_ROWS = Statement(text(f"SELECT * FROM {_INLINED}"))


def _server_alone(lake: Lake) -> float:
    start = time.perf_counter()
    with lake.database.read() as session, on_postgres(session).copy_out(_ALL_ROWS) as messages:
        deque(messages, maxlen=0)
    with lake.database.write() as session:
        session.write_and_commit([Statement(text(f"DELETE FROM {_INLINED}"))])
    return time.perf_counter() - start


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
    yield "| catalog | rows | ours s | extension s | server alone s | extension ÷ ours | ours ÷ server alone |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for one in found:
        ratio = f"{one.extension_seconds / one.ours_seconds:.1f}"
        server, above = "–", "–"
        if one.server_seconds is not None:
            server, above = f"{one.server_seconds:.2f}", f"{one.ours_seconds / one.server_seconds:.1f}"
        times = f"{one.ours_seconds:.2f} | {one.extension_seconds:.2f} | {server}"
        yield f"| {one.catalog} | {one.rows} | {times} | {ratio} | {above} |"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-flush", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--catalogs", nargs="+", choices=["postgres", "sqlite"], default=["postgres"])
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 1_000_000], help="rows of a flush")
    parser.add_argument("--rounds", type=int, default=3, help="flushes of each size by each contender")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
