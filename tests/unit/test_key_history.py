"""Versions of a key over time: they depend on the changes, and not on the order or the batches that these came in."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.upsert.key_history import Change, HistoryPlan, Version, plan_history

CASES = {
    "the first change": ([], [Change(1, 10, 1)], [(1, None, 10)]),
    "a newer one ends the version": ([(1, None, 10)], [Change(3, 11, 2)], [(1, 3, 10), (3, None, 11)]),
    "an older one is put before": ([(5, None, 10)], [Change(3, 11, 2)], [(3, 5, 11), (5, None, 10)]),
    "one between divides":
        ([(1, None, 10)], [Change(9, 12, 3), Change(5, 11, 2)], [(1, 5, 10), (5, 9, 11), (9, None, 12)]),
    "a delete ends the version": ([(1, None, 10)], [Change(4, None)], [(1, 4, 10)]),
    "an older delete divides what is known":
        ([(5, None, 10)], [Change(3, None), Change(2, 11, 2)], [(2, 3, 11), (5, None, 10)]),
    "after a delete a version begins anew": ([(1, 4, 10)], [Change(6, 11, 2)], [(1, 4, 10), (6, None, 11)]),
    "a late change under a delete": ([(1, 9, 10)], [Change(4, 11, 2)], [(1, 4, 10), (4, 9, 11)]),
    "a delete of nothing": ([], [Change(4, None)], []),
    "what looks the same extends": ([(1, None, 10)], [Change(3, 11, 10)], [(1, None, 11)]),
    "what looks the same and is older begins earlier": ([(5, None, 10)], [Change(3, 11, 10)], [(3, None, 10)]),
    "what looks the same after a delete is a version of its own":
        ([(1, 4, 10)], [Change(6, 10, 10)], [(1, 4, 10), (6, None, 10)]),
    "a delete between equal neighbours divides them": ([(1, None, 10)], [Change(3, None)], [(1, 3, 10)]),
    "the same once more": ([(1, None, 10)], [Change(1, 10, 10)], [(1, None, 10)]),
    "a change takes the place of a delete at the same time":
        ([(1, 4, 10)], [Change(4, 11, 11)], [(1, 4, 10), (4, None, 11)]),
    "a change that is corrected joins its neighbours":
        ([(1, 3, 10), (3, None, 11)], [Change(3, 10, 10)], [(1, None, 10)]),
}  # fmt: skip


def versions(rows: list[tuple[int, int | None, int]]) -> list[Version]:
    """Return versions that each look as their row's number."""
    return [Version(start, end, row, row) for start, end, row in rows]


def applied(known: list[Version], plan: HistoryPlan) -> list[Version]:
    gone = {*plan.deleted, *(before for before, _ in plan.updated)}
    kept = [version for version in known if version not in gone]
    return sorted([*kept, *(after for _, after in plan.updated), *plan.inserted], key=lambda version: version.start)


@pytest.mark.parametrize(("known", "changes", "expected"), CASES.values(), ids=CASES)
def test_versions_after_changes(
    known: list[tuple[int, int | None, int]], changes: list[Change], expected: list[tuple[int, int | None, int]]
) -> None:
    before = versions(known)

    after = applied(before, plan_history(before, (), changes))

    assert [(version.start, version.end, version.row) for version in after] == expected


def test_version_that_ends_keeps_its_row() -> None:
    (before,) = versions([(1, None, 10)])

    plan = plan_history([before], (), [Change(3, 11, 2)])

    assert plan == HistoryPlan((Version(3, None, 11, 2),), ((before, Version(1, 3, 10, 10)),))


def test_changes_that_no_version_shows_are_hidden_until_one_does() -> None:
    deleted = plan_history([], (), [Change(7, None)])
    assert deleted == HistoryPlan(hidden=(Change(7, None),))
    assert plan_history([], deleted.hidden, [Change(5, 10, 1)]) == HistoryPlan((Version(5, 7, 10, 1),))

    repeated = plan_history([Version(1, None, 10, 1)], (), [Change(5, 10, 1)])
    assert repeated == HistoryPlan(hidden=(Change(5, 10, 1),))
    between = plan_history([Version(1, None, 10, 1)], repeated.hidden, [Change(3, 11, 2)])
    assert between.inserted == (Version(3, 5, 11, 2), Version(5, None, 10, 1))
    assert between.hidden == ()


@st.composite
def batches(draw: st.DrawFn) -> list[list[Change]]:
    """Return changes in any order and in any batches; some look the same, and untracked values of these may differ."""
    ranks = draw(st.lists(st.integers(0, 9), max_size=14))
    rows = draw(st.lists(st.one_of(st.none(), st.integers(0, 5)), min_size=len(ranks), max_size=len(ranks)))
    found = zip(ranks, rows, strict=True)
    changes = [Change(rank, None) if row is None else Change(rank, row, row // 2) for rank, row in found]
    cuts = sorted(draw(st.lists(st.integers(0, len(changes)), max_size=4)))
    return [changes[start:end] for start, end in zip([0, *cuts], [*cuts, len(changes)], strict=True)]


@given(batches())
def test_order_and_batches_do_not_matter(parts: list[list[Change]]) -> None:
    known: list[Version] = []
    hidden: tuple[Change, ...] = ()
    for part in parts:
        plan = plan_history(known, hidden, part)
        known, hidden = applied(known, plan), plan.hidden
        again = plan_history(known, hidden, {change.rank: change for change in part}.values())
        assert (again.changes_versions, again.hidden) == (False, hidden), "a batch that comes again changes nothing"
    at_once = plan_history([], (), [change for part in parts for change in part])

    assert (known, hidden) == (applied([], at_once), at_once.hidden)
    assert all(a.end is not None and a.end <= b.start for a, b in pairwise(known))
    assert all(a.look != b.look for a, b in pairwise(known) if a.end == b.start), "equal neighbours are one"
