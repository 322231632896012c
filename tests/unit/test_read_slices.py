"""However rows are shared out, each is read exactly once, and nobody has much more to do than the others."""

from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.plan.read_slices import LARGEST_SLICE_BYTES, Piece, count_slices, share_out

PIECES = st.lists(
    st.builds(Piece, st.integers(0, 10**7), st.floats(0, 1e12, allow_subnormal=False), st.integers(1, 10**6)),
    max_size=20,
)


@given(PIECES, st.integers(1, 300))
def test_every_row_is_in_exactly_one_share(pieces: list[Piece], parts: int) -> None:
    shares = share_out(pieces, parts)

    assert len(shares) <= parts
    assert all(shares)
    for index, piece in enumerate(pieces):
        found = [(share.first, share.end) for part in shares for share in part if share.piece == index]
        ends = [0, *(end for _, end in found)]
        assert [first for first, _ in found] == ends[:-1]  # they follow each other
        assert ends[-1] == piece.rows


@given(PIECES, st.integers(1, 300))
def test_no_reader_opens_a_piece_twice(pieces: list[Piece], parts: int) -> None:
    for part in share_out(pieces, parts):
        indexes = [share.piece for share in part]
        assert indexes == sorted(set(indexes))


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=20), st.integers(1, 50), st.integers(1, 10**4))
def test_no_part_is_larger_than_the_others_by_more_than_a_grain(rows: list[int], parts: int, grain: int) -> None:
    pieces = [Piece(count, float(count), grain) for count in rows]

    sizes = [sum(share.end - share.first for share in part) for part in share_out(pieces, parts)]

    assert max(sizes) <= sum(rows) / parts + grain + 1


@given(PIECES, st.integers(1, 50), st.lists(st.integers(1, 500_000), min_size=1, max_size=50))
def test_spans_share_the_row_groups_of_a_file_out(pieces: list[Piece], parts: int, groups: list[int]) -> None:
    pieces = [Piece(sum(groups), piece.cost, piece.grain) for piece in pieces]
    starts = [sum(groups[:index]) for index in range(len(groups))]

    shares = [share for part in share_out(pieces, parts) for share in part]

    for index in range(len(pieces)):
        found = [start for s in shares if s.piece == index for start in starts if s.first <= start < s.end]
        assert found == starts


def test_little_is_read_by_one_and_much_by_many() -> None:
    assert count_slices(0) == 1
    assert count_slices(10 * 2**20) == 1
    assert count_slices(320 * 2**20) == 5
    assert count_slices(20 * 2**30) == 200
    assert count_slices(1000 * LARGEST_SLICE_BYTES) == 1000
