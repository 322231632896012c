"""What a row event is called: pairs are updates, whatever the order; net changes give the same rows as all changes."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.feed.change_types import (
    FIRST_LOCAL_ROW_ID,
    ChangeType,
    change_type_array,
    find_net_changes,
    find_updates,
)

Event = tuple[int, int, bool]  # snapshot, row id, whether it is a delete
ROW_IDS = st.sampled_from([0, 1, 2, 3, 2**62, FIRST_LOCAL_ROW_ID, FIRST_LOCAL_ROW_ID + 1])
EVENTS = st.lists(st.tuples(st.integers(1, 5), ROW_IDS, st.booleans()), max_size=40)


def columns(events: Sequence[Event]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    snapshots, row_ids, is_delete = zip(*events, strict=True) if events else ((), (), ())
    return np.array(snapshots, np.int64), np.array(row_ids, np.int64), np.array(is_delete, bool)


@given(EVENTS)
def test_an_update_is_one_delete_and_one_insert_of_a_row_by_a_snapshot(events: list[Event]) -> None:
    found = find_updates(*columns(events))

    for (snapshot, row_id, _), is_half in zip(events, found, strict=True):
        same = [is_delete for s, r, is_delete in events if (s, r) == (snapshot, row_id)]
        assert is_half == (sorted(same) == [False, True])


@given(EVENTS, st.randoms())
def test_order_makes_no_difference(events: list[Event], random: Random) -> None:
    order = list(range(len(events)))
    random.shuffle(order)
    shuffled = [events[i] for i in order]

    assert find_updates(*columns(shuffled)).tolist() == find_updates(*columns(events))[order].tolist()
    named = Counter(zip(events, find_net_changes(*columns(events)).tolist(), strict=True))
    assert Counter(zip(shuffled, find_net_changes(*columns(shuffled)).tolist(), strict=True)) == named


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[int, int], list[Event], list[int]]:
    """Give rows with their versions, what some snapshots did to them, and the version of each event's row."""
    state = dict.fromkeys(range(draw(st.integers(0, 4))), 0)
    before, events, versions = dict(state), [], []
    for snapshot in range(1, 6):
        for row_id in draw(st.lists(st.integers(0, 6), unique=True)):
            if row_id in state:
                events.append((snapshot, row_id, True))
                versions.append(state.pop(row_id))
                if draw(st.booleans()):
                    continue
            state[row_id] = snapshot
            events.append((snapshot, row_id, False))
            versions.append(snapshot)
    return before, events, versions


@given(histories())
def test_net_changes_have_one_event_for_a_row_and_give_the_same_rows(
    history: tuple[dict[int, int], list[Event], list[int]],
) -> None:
    before, events, versions = history
    after = dict(before)
    for (_, row_id, is_delete), version in zip(events, versions, strict=True):
        if is_delete:
            del after[row_id]
        else:
            after[row_id] = version

    codes = find_net_changes(*columns(events))

    left = [(e[1], v, ChangeType(c)) for e, v, c in zip(events, versions, codes, strict=True) if c >= 0]
    assert len({row_id for row_id, _, _ in left}) == len(left)
    found = dict(before)
    for row_id, version, kind in left:
        if kind is ChangeType.delete:
            assert found.pop(row_id) == version
        else:
            assert (row_id in found) == (kind is ChangeType.update_postimage)
            found[row_id] = version
    assert found == after


@pytest.mark.parametrize(
    "events",
    [
        [(1, 7, False), (1, 7, False)],
        [(1, 7, True), (2, 7, True)],
        [(1, 7, True), (1, 7, True), (1, 7, False), (1, 7, False)],
        [(1, 10**18, True), (1, 10**18, False), (2, 10**18, True), (2, 10**18, False)],
    ],
    ids=["inserted twice", "deleted twice", "two rows updated at once", "the extension's own ids, one after the other"],
)
def test_events_of_row_ids_that_several_rows_have_are_left_as_they_are(events: list[Event]) -> None:
    assert [ChangeType(c) for c in find_net_changes(*columns(events))] == [
        ChangeType.delete if is_delete else ChangeType.insert for _, _, is_delete in events
    ]


def test_names_are_those_of_the_feed() -> None:
    names = change_type_array(np.array([0, 1, 2, 3])).to_pylist()

    assert names == ["insert", "delete", "update_postimage", "update_preimage"]
