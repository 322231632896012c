"""Ids as ranges."""

from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.plan.ranges import ranges_between

IDS = st.sets(st.integers(0, 60))


@given(IDS, IDS)
def test_ranges_hold_all_chosen_ids_and_no_other(chosen: set[int], others: set[int]) -> None:
    others = others - chosen

    ranges = ranges_between(sorted(chosen), sorted(others))

    inside = {i for first, last in ranges for i in range(first, last + 1)}
    assert chosen <= inside
    assert not inside & others
    assert len(ranges) <= len(others) + 1
