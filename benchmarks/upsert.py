"""How long upserts take: ours, the DuckDB extension's MERGE INTO on the same lake, and appends of the same rows.

Run as `make bench-upsert`. Contenders take turns on one lake; medians are compared. No time is asserted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks.contenders import Place, Places
from ducklake_core import Lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.postgres import run_postgres

_FILES = 20
_INLINED_ROWS = 100  # of one upsert into a table whose limit is above it
_FLUSH_EVERY = 100  # batches


@dataclass(frozen=True, slots=True)
class Merge:
    """The median seconds of one batch of updates once both have warmed up, those of the first, and the files opened."""

    keys: str  # clustered or spread
    rows: int
    columns: int
    batch: int
    ours_seconds: float
    extension_seconds: float
    ours_first_seconds: float
    extension_first_seconds: float
    files_opened: int
    files_pruned: int


@dataclass(frozen=True, slots=True)
class Inlined:
    """The median milliseconds of an upsert of inlined rows, and of an append of the same rows."""

    keys: str
    rows: int
    batch: int
    upsert_ms: float
    append_ms: float


@dataclass(frozen=True, slots=True)
class Course:
    """The median milliseconds of the first and of the last tenth of many small batches, with flushes and merges."""

    batches: int
    first_ms: float
    last_ms: float


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(run_postgres()) if options.catalog == "postgres" else None
        places = Places(directory, server)
        shapes = [("clustered", 4), ("spread", 4), ("spread", 40)]
        merges = [measure_merge(places.make(), keys, width, options) for keys, width in shapes]
        inlined = [measure_inlined(places.make(), keys, options) for keys in ("new", "clustered", "spread")]
        course = measure_course(places.make(), options)
    if options.json:
        found = {"merges": [*map(asdict, merges)], "inlined": [*map(asdict, inlined)], "course": asdict(course)}
        print(json.dumps(found, indent=2))
    else:
        print("\n".join(_lines(merges, inlined, course)))


def measure_merge(place: Place, kind: str, width: int, options: argparse.Namespace) -> Merge:
    """Update keys in turns; in every other round the extension goes first. Rounds that warm both up do not count."""
    ours: list[float] = []
    theirs: list[float] = []
    with Lake.create(place.url, place.data_path) as lake, Oracle() as oracle:
        _fill(lake, options.rows, width)
        oracle.attach(place.attach)
        for number in range(options.warm_up + options.rounds):
            mine, other = (_keys(kind, options.rows, options.batch, 2 * number + turn) for turn in (0, 1))
            turns: list[tuple[list[float], Callable[[], float]]] = [
                (ours, partial(_upsert, lake, _rows(mine, width, f"o{number}"))),
                (theirs, partial(_merge, oracle, other, width, f"e{number}")),
            ]
            for seconds, turn in turns[:: -1 if number % 2 else 1]:
                seconds.append(turn())
        keys = _keys(kind, options.rows, options.batch, 2 * (options.warm_up + options.rounds))
        report = lake.upsert("t", _rows(keys, width, "last"), keys="id")
    warm = median(ours[options.warm_up :]), median(theirs[options.warm_up :])
    times = round(warm[0], 4), round(warm[1], 4), round(ours[0], 4), round(theirs[0], 4)
    return Merge(kind, options.rows, width, len(keys), *times, report.files_opened, report.files_pruned)


def measure_inlined(place: Place, kind: str, options: argparse.Namespace) -> Inlined:
    """Upsert few rows, then append the same rows to another table, again and again."""
    upserts: list[float] = []
    appends: list[float] = []
    with Lake.create(place.url, place.data_path) as lake:
        lake.set_option("data_inlining_row_limit", 2 * _INLINED_ROWS)
        _fill(lake, options.small_rows, 4)
        lake.create_table("copy", _schema(4))
        for number in range(options.inlined_rounds):
            first = options.small_rows + number * _INLINED_ROWS
            is_new = kind == "new"
            keys = np.arange(first, first + _INLINED_ROWS) if is_new else _keys(kind, options.small_rows, _INLINED_ROWS)
            rows = _rows(keys, 4, f"i{number}")
            upserts.append(_seconds(partial(lake.upsert, "t", rows, keys="id")))
            appends.append(_seconds(partial(lake.append, "copy", rows)))
    times = [round(median(found) * 1000, 2) for found in (upserts, appends)]
    return Inlined(kind, options.small_rows, _INLINED_ROWS, *times)


def measure_course(place: Place, options: argparse.Namespace) -> Course:
    """Apply many small batches of recent keys, with a flush and a merge now and then."""
    seconds: list[float] = []
    random = np.random.default_rng(1)
    with Lake.create(place.url, place.data_path) as lake:
        _fill(lake, options.small_rows, 4)
        for number in range(options.batches):
            keys = random.choice(options.small_rows // 10, 10, replace=False) + options.small_rows * 9 // 10
            rows = _rows(keys, 4, f"b{number}")
            seconds.append(_seconds(partial(lake.upsert, "t", rows, keys="id")))
            if number % _FLUSH_EVERY == _FLUSH_EVERY - 1:
                lake.flush_inlined("t")
                lake.merge_adjacent_files("t")
                lake.rewrite_data_files("t")
    tenth = max(1, options.batches // 10)
    ends = seconds[:tenth], seconds[-tenth:]
    return Course(options.batches, *(round(median(found) * 1000, 2) for found in ends))


def _fill(lake: Lake, rows: int, width: int) -> None:
    lake.create_table("t", _schema(width))
    size = rows // _FILES
    for first in range(0, rows, size):
        with lake.transaction() as tx:
            tx.append("t", _rows(np.arange(first, first + size), width, "first"), inline_rows=0)


def _schema(width: int) -> dict[str, str]:
    return {"id": "int64", "name": "varchar", **{f"c{i}": "float64" for i in range(width - 2)}}


def _rows(keys: np.ndarray, width: int, name: str) -> pa.Table:
    """Return rows of keys whose texts are new, and one number with them."""
    values = keys * 0.5 + (hash(name) % 1000)
    names = pa.array([f"{name} {key}" for key in keys.tolist()])
    others = {f"c{i}": pa.array(values if i == 0 else keys * 1.5 + i) for i in range(width - 2)}
    return pa.table({"id": pa.array(keys, pa.int64()), "name": names, **others})


def _keys(kind: str, rows: int, batch: int, turn: int = 0) -> np.ndarray:
    """Return other keys in each turn: recent ones that follow each other, or some of every file."""
    if kind == "clustered":
        return np.arange(rows - batch * (turn + 1), rows - batch * turn)
    return np.linspace(0, rows - 1, batch, endpoint=False).astype(np.int64) + turn


def _merge(oracle: Oracle, keys: np.ndarray, width: int, name: str) -> float:
    values = ", ".join(f"({key})" for key in keys.tolist())
    others = "".join(f", id * 0.5 + {hash(name) % 1000 if i == 0 else i} AS c{i}" for i in range(width - 2))
    columns = ["name", *(f"c{i}" for i in range(width - 2))]
    oracle.execute(
        f"CREATE OR REPLACE TEMP TABLE source AS SELECT id::BIGINT AS id, '{name}' || id AS name{others}"
        f" FROM (VALUES {values}) v(id)"
    )
    sets = ", ".join(f"{column} = s.{column}" for column in columns)
    merge = (
        f"MERGE INTO t USING source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {sets} WHEN NOT MATCHED THEN INSERT"
    )
    return _seconds(lambda: oracle.execute(merge))


def _upsert(lake: Lake, rows: pa.Table) -> float:
    return _seconds(partial(lake.upsert, "t", rows, keys="id"))


def _seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _lines(merges: Sequence[Merge], inlined: Sequence[Inlined], course: Course) -> list[str]:
    heads = ["keys", "rows", "columns", "batch", "ours s", "MERGE INTO s", "MERGE ÷ ours", "first: ours, MERGE s"]
    lines = [f"| {' | '.join([*heads, 'files opened, pruned'])} |", "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for m in merges:
        ratio = m.extension_seconds / m.ours_seconds
        lines.append(
            f"| {m.keys} | {m.rows} | {m.columns} | {m.batch} | {m.ours_seconds} | {m.extension_seconds} |"
            f" {ratio:.1f} | {m.ours_first_seconds}, {m.extension_first_seconds} | {m.files_opened}, {m.files_pruned} |"
        )
    lines += ["", "| keys | rows | batch | upsert ms | append ms | upsert ÷ append |", "|---|--:|--:|--:|--:|--:|"]
    for i in inlined:
        ratio = i.upsert_ms / i.append_ms
        lines.append(f"| {i.keys} | {i.rows} | {i.batch} | {i.upsert_ms} | {i.append_ms} | {ratio:.1f} |")
    last = f"{course.batches} batches of 10: first tenth {course.first_ms} ms, last tenth {course.last_ms} ms"
    return [*lines, "", f"{last} ({course.last_ms / course.first_ms:.2f} times)"]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--catalog", choices=["sqlite", "postgres"], default="postgres")
    parser.add_argument("--rows", type=int, default=5_000_000, help=f"of the table, in {_FILES} files")
    parser.add_argument("--batch", type=int, default=1_000, help="updates at once")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--warm-up", type=int, default=2, help="rounds before those, of both alike")
    parser.add_argument("--small-rows", type=int, default=1_000_000, help="of the table that gets small upserts")
    parser.add_argument("--inlined-rounds", type=int, default=100)
    parser.add_argument("--batches", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
