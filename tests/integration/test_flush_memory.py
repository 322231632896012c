"""A flush takes no more memory for more rows: the peak for 4 times the rows is that for the rows.

Counted is what Python, numpy and Arrow ask for: what a process keeps of that depends on allocators and on the moment.
"""

import tracemalloc
from typing import Any

import pyarrow as pa
import pytest

from ducklake_core import Lake
from tests.fixtures.catalogs import MakeCatalog
from tests.fixtures.processes import CONTEXT, join, start

MEMORY_BYTES = 16 * 2**20
BATCH = 10_000
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "partitioned": {"partition_by": ["k"]},
    "sorted": {"sorted_by": ["s DESC"]},
}


def rows(first: int) -> pa.Table:
    ids = range(first, first + BATCH)
    return pa.table({"i": ids, "k": [i % 5 for i in ids], "s": [f"{i * 7919 % 1000003:0200}" for i in ids]})


def flush(url: str, results: Any) -> None:  # Any: a queue
    """Put the memory that a flush takes at its peak, in bytes, after another that loads what is loaded once."""
    with Lake.open(url) as lake:
        lake.flush_inlined("small", memory_bytes=MEMORY_BYTES)
        tracemalloc.start()
        result = lake.flush_inlined("t", memory_bytes=MEMORY_BYTES)
        _, peak = tracemalloc.get_traced_memory()
        results.put((result.rows, result.data_files, peak + pa.default_memory_pool().max_memory()))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_the_rows_do_not_take_twice_the_memory(make_catalog: MakeCatalog, shape: str) -> None:
    found = []
    for batches in (2, 8):
        catalog = make_catalog()
        with Lake.create(catalog.url, catalog.data_path) as lake:
            lake.set_option("data_inlining_row_limit", BATCH)
            lake.create_table("small", {"i": "int64"})
            lake.append("small", {"i": [1]})
            lake.create_table("t", {"i": "int64", "k": "int64", "s": "varchar"}, **SHAPES[shape])
            for batch in range(batches):
                lake.append("t", rows(batch * BATCH))
        with CONTEXT.Manager() as manager:
            results = manager.Queue()
            assert join(start(flush, catalog.url, results)) == [0]
            found.append(results.get())

    (few, few_files, less), (many, many_files, more) = found
    assert (few, many) == (2 * BATCH, 8 * BATCH)
    assert few_files == many_files == (5 if shape == "partitioned" else 1)
    assert more < 2 * less, (less, more)  # with room for what is prefetched on a busy machine
    assert more < MEMORY_BYTES
