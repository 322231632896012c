"""Pieces of inlined rows by their row ids: what one of many readers takes from the catalog. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple


class CountedRows(NamedTuple):
    """Row versions of one inlined table in one piece: how many, and the ends of their row ids, both included."""

    piece: int
    table: int
    first: int
    last: int
    rows: int


@dataclass(frozen=True, slots=True)
class RowIdPiece:
    """Row versions that have row ids from `first` on, less than `end`: how many, of each of some inlined tables."""

    first: int
    end: int
    counts: tuple[int, ...]

    @property
    def rows(self) -> int:
        return sum(self.counts)

    def joined(self, later: RowIdPiece) -> RowIdPiece:
        counts = tuple(one + other for one, other in zip(self.counts, later.counts, strict=True))
        return RowIdPiece(self.first, later.end, counts)


def row_id_pieces(counted: Iterable[CountedRows], tables: int) -> Iterator[RowIdPiece]:
    """Yield the pieces in the order of row ids, in which they were counted.

    Pieces that share a row id become one: it has several versions, and the count has cut between them.
    """
    waiting: RowIdPiece | None = None
    for _, group in groupby(counted, key=lambda one: one.piece):
        piece = _piece(list(group), tables)
        if waiting is None or piece.first >= waiting.end:
            if waiting is not None:
                yield waiting
            waiting = piece
        else:
            waiting = waiting.joined(piece)
    if waiting is not None:
        yield waiting


def _piece(found: list[CountedRows], tables: int) -> RowIdPiece:
    counts = dict.fromkeys(range(tables), 0) | {one.table: one.rows for one in found}
    return RowIdPiece(min(one.first for one in found), max(one.last for one in found) + 1, tuple(counts.values()))


def packed(pieces: Iterable[RowIdPiece], rows: int) -> Iterator[RowIdPiece]:
    """Yield larger pieces, each of as many that follow each other as have so many rows together."""
    waiting: RowIdPiece | None = None
    for piece in pieces:
        if waiting is not None and waiting.rows + piece.rows > rows:
            yield waiting
            waiting = None
        waiting = piece if waiting is None else waiting.joined(piece)
    if waiting is not None:
        yield waiting
