"""Which snapshots expire: decided by values alone."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.model import SnapshotId
from ducklake_core.plan.expiry import NOTHING_ASKED, Keeper, SnapshotAge, Wanted, plan_expiry

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def ages(*ids: int) -> list[SnapshotAge]:
    return [SnapshotAge(SnapshotId(i), BEGIN + timedelta(days=i)) for i in ids]


@given(
    st.sets(st.integers(0, 40), min_size=1),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(0, 50),
    st.lists(st.integers(0, 40)),
)
def test_only_what_is_old_and_not_needed_expires(
    ids: set[int], keep_last: int | None, days: int | None, needed: list[int]
) -> None:
    before = None if days is None else BEGIN + timedelta(days=days)
    keepers = [Keeper(SnapshotId(i), f"needs {i}") for i in sorted(needed)]

    found = plan_expiry(ages(*sorted(ids)), Wanted(before, keep_last), keepers)

    assert sorted([*found.expired, *found.retained]) == sorted(ids)
    assert found.retained[-1] == max(ids)
    assert len(found.retained) >= min(len(ids), keep_last or 1)
    assert all(i < min(needed, default=100) and (days is None or i < days) for i in found.expired)
    if keep_last is None and days is None:
        assert (found.expired, found.held_back) == ((), (NOTHING_ASKED,))


def test_those_who_hold_something_back_are_named_and_no_others() -> None:
    keepers = [Keeper(SnapshotId(i), f"needs {i}") for i in (2, 5, 9)]

    found = plan_expiry(ages(*range(10)), Wanted(keep_last=4), keepers)

    assert found.expired == (0, 1)
    assert found.held_back == ("needs 2", "needs 5")


def test_many_who_hold_something_back_are_counted() -> None:
    found = plan_expiry(ages(*range(10)), Wanted(keep_last=1), [Keeper(SnapshotId(1), "a")] * 15)

    assert found.held_back == (*["a"] * 10, "5 more consumers and streams")
