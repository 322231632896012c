"""Deletes and updates hold no more than what they change: 4 times the files take far less than 4 times the memory.

Counted is what Python, numpy and Arrow ask for: what a process keeps of that depends on allocators and on the moment.
How far Arrow's threads read ahead does so, too: on a busy machine a peak was 1.6 times that of a quiet one.
"""

import tracemalloc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from ducklake_core import Lake, row_writes
from tests.fixtures.catalogs import MakeCatalog
from tests.fixtures.processes import CONTEXT, join, start

ROWS = 20_000
CHANGES: dict[str, Callable[[Lake, str], int]] = {
    "delete": lambda lake, table: run(lake, table, None),
    "update": lambda lake, table: run(lake, table, {"i": -1}),
    "update all": lambda lake, table: run(lake, table, {"i": -1}, "i >= 0"),
}


def run(lake: Lake, table: str, values: dict[str, object] | None, where: str = "s = 'few'") -> int:
    with lake.transaction() as tx:
        return tx.delete(table, where) if values is None else tx.update(table, values, where)


def rows(first: int) -> pa.Table:
    ids = range(first, first + ROWS)
    return pa.table({"i": ids, "s": ["few" if i % 1000 == 0 else f"{i * 7919 % 1000003:0200}" for i in ids]})


def change(url: str, kind: str, results: Any) -> None:  # Any: a queue
    """Put the memory that a change takes at its peak, in bytes, after another that loads what is loaded once."""
    row_writes.HELD_BYTES = 4 * 2**20
    with Lake.open(url) as lake:
        CHANGES[kind](lake, "small")
        tracemalloc.start()
        count = CHANGES[kind](lake, "t")
        _, peak = tracemalloc.get_traced_memory()
        results.put((count, peak + pa.default_memory_pool().max_memory()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHANGES)
def test_four_times_the_files_do_not_take_twice_the_memory(make_catalog: MakeCatalog, kind: str) -> None:
    found = []
    for files in (3, 12):
        catalog = make_catalog()
        with Lake.create(catalog.url, catalog.data_path) as lake:
            for name, count in (("small", 1), ("t", files)):
                lake.create_table(name, {"i": "int64", "s": "varchar"})
                for file in range(count):
                    lake.append(name, rows(file * ROWS))
        with CONTEXT.Manager() as manager:
            results = manager.Queue()
            assert join(start(change, catalog.url, kind, results)) == [0]
            found.append(results.get())

    (few, less), (many, more) = found
    assert many == 4 * few > 0
    assert more < 2 * less, (less, more)
