"""Who reads what when many read one table: rows are shared out evenly, each row to exactly one reader. Pure.

All pieces (files, inlined rows) are laid in one line, as long as they cost, and the line is cut into equal lengths. So
a piece is opened at most once by each reader, and no part is larger than the others by more than a grain.
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
class Piece:
    """Rows in an order, which can be cut apart at multiples of `grain` rows; `cost` is in bytes, more or less."""

    rows: int
    cost: float
    grain: int


@dataclass(frozen=True, slots=True)
class Share:
    """Some rows of a piece: `first` is one of them, `end` is not."""

    piece: int  # its index
    first: int
    end: int


def count_slices(cost: float) -> int:
    """Return into how many parts to cut something of that cost: few when it is little, more when it is much."""
    target = min(max(cost / _WANTED_SLICES, SMALLEST_SLICE_BYTES), LARGEST_SLICE_BYTES)
    return max(1, ceil(cost / target))


def share_out(pieces: Sequence[Piece], parts: int) -> list[list[Share]]:
    """Return at most so many parts, none of them empty, which hold each row of each piece exactly once, in order."""
    total = sum(piece.cost for piece in pieces)
    ends = [total * (number + 1) / parts for number in range(parts - 1)]
    shares: list[list[Share]] = [[] for _ in range(parts)]
    begin = 0.0
    for index, piece in enumerate(pieces):
        cuts = [0, *(_cut(piece, end - begin) for end in ends), piece.rows]
        for part, (first, end) in enumerate(pairwise(cuts)):
            if first < end:
                shares[part].append(Share(index, first, end))
        begin += piece.cost
    return [part for part in shares if part]


def _cut(piece: Piece, distance: float) -> int:
    """Return the row where a cut at a distance from the piece's begin falls, moved to the nearest grain."""
    if distance <= 0:
        return 0
    if distance >= piece.cost:
        return piece.rows
    grains = round(distance / piece.cost * piece.rows / piece.grain)
    return min(grains * piece.grain, piece.rows)
