"""Keys that are planned all at once get the versions that a plan of each alone would give them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.upsert.key_history import Change, HistoryPlan, Version, plan_history
from ducklake_core.upsert.plain_history import DELETED, UNTIL_NOW, PlainPlan, Points, Spans, plan_plain

KEYS = 2
RANKS = st.integers(1, 5)
LOOKS = st.integers(0, 1)
# A version or a change has the row of its look, of which there are two, or another one that looks the same.
SPANS = st.tuples(st.integers(0, KEYS - 1), st.integers(0, 4), st.integers(0, 5), LOOKS, LOOKS)
EVENTS = st.tuples(st.integers(0, KEYS - 1), RANKS, st.booleans(), LOOKS, LOOKS)


def planned(
    spans: list[tuple[int, int, int, int, int]], events: list[tuple[int, int, bool, int, int]], hidden: list[int]
) -> PlainPlan:
    numbers, starts, ends, looks, others = np.asarray(spans, np.int64).reshape(-1, 5).T
    keys, ranks, deletes, event_looks, event_others = np.asarray(events, np.int64).reshape(-1, 5).T
    rows = np.where(deletes == 1, DELETED, event_looks + 2 * event_others)
    points = Points(keys, ranks, rows, np.where(deletes == 1, DELETED, event_looks))
    stored = Spans(numbers, starts, ends, looks + 2 * others, looks)
    return plan_plain(KEYS, points, stored, np.asarray(hidden, np.int64))


def alone(
    key: int, spans: list[tuple[int, int, int, int, int]], events: list[tuple[int, int, bool, int, int]]
) -> tuple[list[Version], HistoryPlan]:
    known = [Version(start, end or None, look + 2 * more, look) for k, start, end, look, more in spans if k == key]
    changes = [
        Change(rank, None) if is_delete else Change(rank, look + 2 * more, look)
        for k, rank, is_delete, look, more in events
        if k == key
    ]
    return known, plan_history(known, (), changes)


@given(
    st.lists(SPANS, max_size=4, unique_by=lambda span: span[:2]),
    st.lists(EVENTS, min_size=1, max_size=3),
    st.lists(st.integers(0, KEYS - 1), max_size=1),
)
def test_plan_of_many_keys_is_that_of_each(
    spans: list[tuple[int, int, int, int, int]], events: list[tuple[int, int, bool, int, int]], hidden: list[int]
) -> None:
    plan = planned(spans, events, hidden)

    assert not plan.is_plain[hidden].any()
    for key in np.flatnonzero(plan.is_plain).tolist():
        known, expected = alone(key, spans, events)
        ended = [
            (Version(start, end or None, look + 2 * more, look), at)
            for place, at in zip(plan.ended.tolist(), plan.ended_at.tolist(), strict=True)
            for k, start, end, look, more in [spans[place]]
            if k == key
        ]
        begun = plan.begun
        new = [
            Version(int(begun.ranks[i]), None, int(begun.rows[i]), int(begun.looks[i]))
            for i in np.flatnonzero(begun.numbers == key).tolist()
        ]
        assert [*new] == [*expected.inserted]
        assert [(old, Version(old.start, at, old.row, old.look)) for old, at in ended] == [*expected.updated]
        assert (expected.deleted, expected.hidden) == ((), ())
        assert all(old in known for old, _ in ended)


@pytest.mark.parametrize(
    ("spans", "event", "is_plain"),
    [
        ([], (0, 5, False, 0, 0), True),
        ([(0, 1, UNTIL_NOW, 0, 0)], (0, 5, False, 1, 0), True),
        ([(0, 1, UNTIL_NOW, 0, 0)], (0, 5, True, 0, 0), True),
        ([(0, 0, 2, 0, 0), (0, 2, UNTIL_NOW, 1, 0)], (0, 5, False, 0, 0), True),
        ([(0, 1, 3, 0, 0)], (0, 5, False, 0, 0), True),
        ([], (0, 5, True, 0, 0), False),
        ([(0, 1, UNTIL_NOW, 0, 0)], (0, 1, False, 1, 0), False),
        ([(0, 1, UNTIL_NOW, 0, 0)], (0, 5, False, 0, 1), False),
        ([(0, 1, 5, 0, 0)], (0, 5, False, 0, 0), False),
        ([(0, 1, 7, 0, 0)], (0, 5, False, 1, 0), False),
        ([(0, 1, 3, 0, 0), (0, 3, UNTIL_NOW, 0, 0)], (0, 5, False, 1, 0), False),
        ([(0, 1, UNTIL_NOW, 0, 0), (0, 3, UNTIL_NOW, 1, 0)], (0, 5, False, 0, 0), False),
    ],
    ids=[
        *("first", "another", "delete", "with an older one", "after a delete", "delete of nothing", "at the same time"),
        *("untracked value", "at the end", "late", "equal neighbours", "overlapping"),
    ],
)
def test_which_keys_are_plain(
    spans: list[tuple[int, int, int, int, int]], event: tuple[int, int, bool, int, int], *, is_plain: bool
) -> None:
    assert bool(planned(spans, [event], []).is_plain[0]) is is_plain
