"""How long one commit of a few inlined rows takes: ours, the DuckDB extension's, and the floor of the database.

Run as `make bench`. All contenders take turns in every round of one run, each on a table of its own, so that whatever
else the machine does falls on all of them; their medians are compared. No time is asserted: README.md has some.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TypeAlias

import pyarrow as pa

from benchmarks.contenders import (
    Contender,
    Place,
    Places,
    encoded_copy,
    encoded_insert,
    extension_insert,
    our_append,
    our_epoch,
    row_copy,
)
from benchmarks.readings import make_readings
from tests.fixtures.postgres import run_postgres

YOUNG_SNAPSHOTS = 100
HISTORY_ROWS = 10
WARM_UP_ROUNDS = 5

MakeContender: TypeAlias = Callable[[Place], AbstractContextManager[Contender]]

CONTENDERS: Mapping[str, Mapping[str, MakeContender]] = {
    "postgres": {
        "ours": our_append,
        "our epoch": our_epoch,
        "extension": extension_insert,
        "floor": encoded_copy,
        "psycopg rows": row_copy,
    },
    "sqlite": {
        "ours": our_append,
        "our epoch": our_epoch,
        "extension": extension_insert,
        "floor": encoded_insert,
    },
}


@dataclass(frozen=True, slots=True)
class Appends:
    """The median milliseconds of each contender's append of `rows` rows."""

    catalog: str
    rows: int
    milliseconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class History:
    """Our median milliseconds at few and at many snapshots."""

    catalog: str
    rows: int
    snapshots: tuple[int, int]
    milliseconds: tuple[float, float]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    appends: list[Appends] = []
    histories: list[History] = []
    for catalog in options.catalogs:
        with _places(catalog) as places:
            appends += measure_appends(catalog, places, options.rows, options.rounds)
            if options.snapshots:
                histories.append(measure_history(catalog, places, options.snapshots, options.rounds))
    if options.json:
        print(json.dumps({"appends": [*map(asdict, appends)], "histories": [*map(asdict, histories)]}, indent=2))
    else:
        print("\n".join([*_append_lines(appends), "", *_history_lines(histories)]))


def measure_appends(catalog: str, places: Places, sizes: Sequence[int], rounds: int) -> list[Appends]:
    """Return the medians for each number of rows."""
    with ExitStack() as stack:
        contenders = {name: stack.enter_context(make(places.make())) for name, make in CONTENDERS[catalog].items()}
        return [Appends(catalog, rows, _race(contenders, rows, rounds)) for rows in sizes]


def measure_history(catalog: str, places: Places, snapshots: int, rounds: int) -> History:
    """Return our medians on two lakes with the same table, whose histories are appends of one row each."""
    with our_append(places.make()) as young, our_append(places.make()) as old:
        for append, count in ((young, YOUNG_SNAPSHOTS), (old, snapshots)):
            for _ in range(count):
                append(make_readings(1))
        found = _race({"young": young, "old": old}, HISTORY_ROWS, rounds)
    return History(catalog, HISTORY_ROWS, (YOUNG_SNAPSHOTS, snapshots), (found["young"], found["old"]))


def _race(contenders: Mapping[str, Contender], rows: int, rounds: int) -> dict[str, float]:
    """Let the contenders take turns, another one first in each round; return their median milliseconds."""
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(WARM_UP_ROUNDS + rounds):
        readings: pa.Table = make_readings(rows)
        first = number % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(contenders[name](readings))
    return {name: round(1000 * median(found[WARM_UP_ROUNDS:]), 3) for name, found in seconds.items()}


@contextmanager
def _places(catalog: str) -> Iterator[Places]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield Places(directory, stack.enter_context(run_postgres()) if catalog == "postgres" else None)


def _append_lines(appends: Sequence[Appends]) -> Iterator[str]:
    names = list(CONTENDERS["postgres"])
    yield (
        "| catalog | rows | "
        + " | ".join(f"{name} ms" for name in names)
        + " | extension ÷ ours | epoch ÷ ours | ours ÷ floor |"
    )
    yield "|---|--:|" + "--:|" * (len(names) + 3)
    for one in appends:
        times = one.milliseconds
        cells = [f"{times[name]:.2f}" if name in times else "–" for name in names]
        cells += [f"{times['extension'] / times['ours']:.1f}", f"{times['our epoch'] / times['ours']:.2f}"]
        cells += [f"{times['ours'] / times['floor']:.1f}"]
        yield f"| {one.catalog} | {one.rows} | {' | '.join(cells)} |"


def _history_lines(histories: Sequence[History]) -> Iterator[str]:
    for one in histories:
        (few, many), (young, old) = one.snapshots, one.milliseconds
        yield (
            f"{one.catalog}: an append of {one.rows} rows takes {young:.2f} ms at {few} snapshots, "
            f"{old:.2f} ms at {many}: {old / young:.2f} times"
        )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--catalogs", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--rows", nargs="+", type=int, default=[10, 100, 1000], help="sizes of an append")
    parser.add_argument("--rounds", type=int, default=100, help="appends of each size by each contender")
    parser.add_argument("--snapshots", type=int, default=20_000, help="length of the long history; 0: leave it out")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
