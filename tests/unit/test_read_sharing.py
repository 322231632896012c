"""However rows are shared out, each is read exactly once, and nobody has much more to do than the others."""

from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.read.sharing import LARGEST_SLICE_BYTES, Extent, count_slices, cut_evenly

EXTENTS = st.lists(
    st.builds(Extent, st.integers(0, 10**7), st.floats(0, 1e12, allow_subnormal=False), st.integers(1, 10**6)),
    max_size=20,
)


@given(EXTENTS, st.integers(1, 300))
def test_every_row_is_in_exactly_one_cut(extents: list[Extent], parts: int) -> None:
    cuts = cut_evenly(extents, parts)

    assert len(cuts) <= parts
    assert all(cuts)
    for index, extent in enumerate(extents):
        found = [(cut.first, cut.end) for part in cuts for cut in part if cut.extent == index]
        ends = [0, *(end for _, end in found)]
        assert [first for first, _ in found] == ends[:-1]  # they follow each other
        assert ends[-1] == extent.rows


@given(EXTENTS, st.integers(1, 300))
def test_no_reader_opens_an_extent_twice(extents: list[Extent], parts: int) -> None:
    for part in cut_evenly(extents, parts):
        indexes = [cut.extent for cut in part]
        assert indexes == sorted(set(indexes))


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=20), st.integers(1, 50), st.integers(1, 10**4))
def test_no_part_is_larger_than_the_others_by_more_than_a_grain(rows: list[int], parts: int, grain: int) -> None:
    extents = [Extent(count, float(count), grain) for count in rows]

    sizes = [sum(cut.end - cut.first for cut in part) for part in cut_evenly(extents, parts)]

    assert max(sizes) <= sum(rows) / parts + grain + 1


@given(EXTENTS, st.integers(1, 50), st.lists(st.integers(1, 500_000), min_size=1, max_size=50))
def test_spans_share_the_row_groups_of_a_file_out(extents: list[Extent], parts: int, groups: list[int]) -> None:
    extents = [Extent(sum(groups), extent.cost, extent.grain) for extent in extents]
    starts = [sum(groups[:index]) for index in range(len(groups))]

    cuts = [cut for part in cut_evenly(extents, parts) for cut in part]

    for index in range(len(extents)):
        found = [start for cut in cuts if cut.extent == index for start in starts if cut.first <= start < cut.end]
        assert found == starts


def test_little_is_read_by_one_and_much_by_many() -> None:
    assert count_slices(0) == 1
    assert count_slices(10 * 2**20) == 1
    assert count_slices(320 * 2**20) == 5
    assert count_slices(20 * 2**30) == 200
    assert count_slices(1000 * LARGEST_SLICE_BYTES) == 1000
