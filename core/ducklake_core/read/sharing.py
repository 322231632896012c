"""Who reads what when many read one table: rows are shared out evenly, each row to exactly one reader. Pure.

All extents (files, inlined rows) are laid in one line, as long as they cost, and the line is cut into equal lengths. So
a extent is opened at most once by each reader, and no part is larger than the others by more than a grain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

# A task of Spark in Python takes some time besides its work: 2,000,000 rows of ten columns were read in 2 slices of
# 45 MB in less than half the time that 16 slices took (on 2 cores; benchmarks/README.md).
SMALLEST_SLICE_BYTES = 64 * 2**20
LARGEST_SLICE_BYTES = 128 * 2**20
_WANTED_SLICES = 200  # where there is enough to read, so that a large cluster has work


@dataclass(frozen=True, slots=True)
class SliceLimits:
    """How a read is shared out. Inlined rows travel in slices up to these bounds. `count` None: by the bytes."""

    shipped_rows: int = 100_000
    shipped_bytes: int = 16 * 2**20
    count: int | None = None


DEFAULT_LIMITS = SliceLimits()


@dataclass(frozen=True, slots=True)
class Extent:
    """Rows in an order, which can be cut apart at multiples of `grain` rows; `cost` is in bytes, more or less."""

    rows: int
    cost: float
    grain: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Some rows of a extent: `first` is one of them, `end` is not."""

    extent: int  # its index
    first: int
    end: int


def count_slices(cost: float) -> int:
    """Return into how many parts to cut something of that cost: few when it is little, more when it is much."""
    target = min(max(cost / _WANTED_SLICES, SMALLEST_SLICE_BYTES), LARGEST_SLICE_BYTES)
    return max(1, ceil(cost / target))


def cut_evenly(extents: Sequence[Extent], parts: int) -> list[list[Cut]]:
    """Return at most so many parts, none of them empty, which hold each row of each extent exactly once, in order."""
    total = sum(extent.cost for extent in extents)
    ends = [total * (number + 1) / parts for number in range(parts - 1)]
    shared: list[list[Cut]] = [[] for _ in range(parts)]
    begin = 0.0
    for index, extent in enumerate(extents):
        cuts = [0, *(_cut(extent, end - begin) for end in ends), extent.rows]
        for part, (first, end) in enumerate(pairwise(cuts)):
            if first < end:
                shared[part].append(Cut(index, first, end))
        begin += extent.cost
    return [part for part in shared if part]


def _cut(extent: Extent, distance: float) -> int:
    """Return the row where a cut at a distance from the extent's begin falls, moved to the nearest grain."""
    if distance <= 0:
        return 0
    if distance >= extent.cost:
        return extent.rows
    grains = round(distance / extent.cost * extent.rows / extent.grain)
    return min(grains * extent.grain, extent.rows)
