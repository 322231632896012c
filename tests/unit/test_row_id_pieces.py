"""Inlined rows in pieces by their row ids: none is lost, and all versions of a row are in one piece."""

from collections import Counter
from itertools import groupby, pairwise

from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.plan.row_id_pieces import CountedRows, RowIdPiece, packed, row_id_pieces

TABLES = 3
VERSIONS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, TABLES - 1)), max_size=60)


def counted(versions: list[tuple[int, int]], rows: int) -> list[CountedRows]:
    """Count versions (row id, table) as the catalog does: so many to a piece, in the order of row ids."""
    placed = [(place // rows, table, row_id) for place, (row_id, table) in enumerate(sorted(versions))]
    found = []
    for (piece, table), group in groupby(sorted(placed), key=lambda one: one[:2]):
        ids = [row_id for _, _, row_id in group]
        found.append(CountedRows(piece, table, min(ids), max(ids), len(ids)))
    return found


@given(VERSIONS, st.integers(1, 8), st.integers(1, 20))
def test_pieces_have_every_version_once_and_all_of_a_row_together(
    versions: list[tuple[int, int]], rows: int, larger: int
) -> None:
    pieces = list(row_id_pieces(counted(versions, rows), TABLES))

    for found in (pieces, list(packed(pieces, larger))):
        for piece in found:
            own = Counter(table for row_id, table in versions if piece.first <= row_id < piece.end)
            assert piece.counts == tuple(own[table] for table in range(TABLES))
        assert sum(piece.rows for piece in found) == len(versions)
        assert all(one.end <= other.first for one, other in pairwise(found))


def test_packed_pieces_are_as_large_as_they_may_be() -> None:
    pieces = [RowIdPiece(i, i + 1, (4,)) for i in range(5)]

    assert [piece.rows for piece in packed(pieces, 8)] == [8, 8, 4]
    assert [piece.rows for piece in packed(pieces, 1)] == [4] * 5
