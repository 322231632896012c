"""Upserts beside appends to the same table: how often they plan again, how long that takes, and whether any gives up.

Run as `make bench-contention`. Another process appends so many times a second. No time is asserted.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from multiprocessing.synchronize import Event as Flag
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks.contenders import Place, Places
from ducklake_core import Lake
from ducklake_core.errors import CommitConflict
from ducklake_core.observe import ConflictRetried, Event
from tests.fixtures.postgres import run_postgres

_BATCH = 10
_FIRST_OF_OTHERS = 10**9
# What the other process appends: inlined rows of other keys; files of other keys, as their statistics tell; files whose
# keys are other ones, too, but lie between those of the upserts.
NEIGHBOURS = ("inlined rows", "files", "files between the keys")


@dataclass(frozen=True, slots=True)
class Found:
    """What became of the upserts beside one kind of appends. `attempts`: the most that one of them took."""

    neighbour: str
    appends_per_second: float
    upserts: int
    median_ms: float
    longest_ms: float
    planned_again: int
    attempts: int
    given_up: int


@dataclass(slots=True)
class _Attempts:
    """A recorder of how often upserts began again."""

    count: int = 0
    most: int = 1

    def record(self, event: Event) -> None:
        if isinstance(event, ConflictRetried):
            self.count += 1
            self.most = max(self.most, event.attempt + 1)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(run_postgres()) if options.catalog == "postgres" else None
        places = Places(directory, server)
        found = [measure(places.make(), neighbour, options) for neighbour in NEIGHBOURS]
    print(json.dumps([*map(asdict, found)], indent=2) if options.json else "\n".join(_lines(found)))


def measure(place: Place, neighbour: str, options: argparse.Namespace) -> Found:
    """Upsert for some seconds while another process appends."""
    attempts, times = _Attempts(), _Times()
    with Lake.create(place.url, place.data_path, recorder=attempts) as lake:
        lake.create_table("t", {"id": "int64", "v": "int64"})
        with lake.transaction() as tx:
            tx.append("t", _rows(np.arange(0, 2 * options.rows, 2), 0), inline_rows=0)
        context = mp.get_context("spawn")
        flag, count = context.Event(), context.Value("i", 0)
        other = context.Process(target=_append, args=(place.url, neighbour, options.per_second, flag, count))
        other.start()
        while count.value == 0 and other.is_alive():
            time.sleep(0.01)
        before, begun = count.value, time.perf_counter()
        _upsert(lake, options, times, until=begun + options.seconds)
        appended = (count.value - before) / (time.perf_counter() - begun)
        flag.set()
        other.join()
    return Found(
        neighbour,
        round(appended, 1),
        len(times.seconds),
        round(median(times.seconds) * 1000, 1),
        round(max(times.seconds) * 1000, 1),
        attempts.count,
        attempts.most,
        times.given_up,
    )


@dataclass(slots=True)
class _Times:
    seconds: list[float] = field(default_factory=list)
    given_up: int = 0


def _upsert(lake: Lake, options: argparse.Namespace, times: _Times, until: float) -> None:
    random = np.random.default_rng(1)
    turn = 0
    while not turn or time.perf_counter() < until:
        turn += 1
        begun = time.perf_counter()
        try:
            lake.upsert("t", _rows(2 * random.choice(options.rows, _BATCH, replace=False), turn), keys="id")
        except CommitConflict:
            times.given_up += 1
        times.seconds.append(time.perf_counter() - begun)


def _append(url: str, neighbour: str, per_second: float, flag: Flag, count: object) -> None:
    """Append again and again, in a process of its own."""
    limit = None if neighbour == "inlined rows" else 0
    with Lake.open(url) as lake:
        due, turn = time.perf_counter(), 0
        while not flag.is_set():
            keys = np.array([1, 3]) if turn == 0 else np.array([2 * turn + 1, _FIRST_OF_OTHERS + 2 * turn + 1])
            if neighbour != "files between the keys":
                keys = _FIRST_OF_OTHERS + 2 * turn + np.array([1, 2 * _FIRST_OF_OTHERS + 1])
            with lake.transaction() as tx:
                tx.append("t", _rows(keys, -1), inline_rows=limit)
            turn += 1
            count.value += 1  # type: ignore[attr-defined] # a shared integer, of no public type
            due = max(due + 1 / per_second, time.perf_counter() - 1)
            time.sleep(max(0.0, due - time.perf_counter()))


def _rows(keys: np.ndarray, value: int) -> pa.Table:
    return pa.table({"id": pa.array(keys, pa.int64()), "v": pa.array(np.full(len(keys), value), pa.int64())})


def _lines(found: Sequence[Found]) -> list[str]:
    lines = ["| beside | appends/s | upserts | median ms | longest ms | planned again | most attempts | given up |"]
    lines += ["|---|--:|--:|--:|--:|--:|--:|--:|"]
    return lines + ["| " + " | ".join(map(str, asdict(one).values())) + " |" for one in found]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--catalog", choices=["sqlite", "postgres"], default="postgres")
    parser.add_argument("--rows", type=int, default=100_000, help="of the table that gets upserts of 10 keys each")
    parser.add_argument("--per-second", type=float, default=50.0, help="appends of the other process")
    parser.add_argument("--seconds", type=float, default=20.0, help="of upserts beside each kind of appends")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
