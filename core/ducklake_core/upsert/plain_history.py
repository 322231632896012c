"""What becomes of the versions of many keys at once, where that is plain: one event that comes after all that is known.

Pure. It ends the version that holds until now, begins a new one, or does both. Whatever else there is, such as late or
hidden changes, several events of a key, or one that changes nothing, is left to `key_history`, which plans key by key.
Where both can plan a key, they give the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

UNTIL_NOW = 0  # in place of the rank of an end
DELETED = -1  # in place of a row
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Changes: the numbers of their keys, ranks, and the numbers of their rows and looks, or DELETED."""

    numbers: np.ndarray
    ranks: np.ndarray
    rows: np.ndarray
    looks: np.ndarray

    def only(self, kept: np.ndarray) -> Points:
        return Points(self.numbers[kept], self.ranks[kept], self.rows[kept], self.looks[kept])


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Versions: the numbers of their keys, and from when until when each holds; see `Points` for the rest."""

    numbers: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    rows: np.ndarray
    looks: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class PlainPlan:
    """`is_plain`: of which keys this is the plan. Versions at places `ended` end at `ended_at`; `begun` are new."""

    is_plain: np.ndarray
    ended: np.ndarray
    ended_at: np.ndarray
    begun: Points


def plan_plain(count: int, events: Points, stored: Spans, hidden: np.ndarray) -> PlainPlan:
    """Plan those of `count` keys that are plain. `hidden`: numbers of keys that have changes which no version shows."""
    is_plain = np.bincount(events.numbers, minlength=count) == 1
    is_plain[hidden] = False
    last = _last_versions(is_plain, stored)
    at = last[events.numbers]
    has_one, fallback = at >= 0, np.where(at >= 0, at, 0)
    starts, ends, looks = (_taken(column, fallback) for column in (stored.starts, stored.ends, stored.looks))
    is_open, is_delete = has_one & (ends == UNTIL_NOW), events.rows == DELETED
    is_later = ~has_one | (events.ranks > np.where(is_open, starts, ends))
    does_something = np.where(is_delete, is_open, ~(is_open & (looks == events.looks)))
    fits = is_plain[events.numbers] & is_later & does_something
    is_plain[events.numbers[~fits]] = False
    ends_one = np.flatnonzero(fits & is_open)
    return PlainPlan(is_plain, at[ends_one], events.ranks[ends_one], events.only(np.flatnonzero(fits & ~is_delete)))


def _last_versions(is_plain: np.ndarray, stored: Spans) -> np.ndarray:
    """Return the place of the last version of each key, -1: it has none. Keys are not plain whose versions are odd.

    Which are those that overlap, end before they begin, or follow on each other at once and look the same.
    """
    order = np.lexsort((stored.starts, stored.numbers))
    numbers, starts, looks = stored.numbers[order], stored.starts[order], stored.looks[order]
    ends = np.where(stored.ends[order] == UNTIL_NOW, _NEVER, stored.ends[order])
    is_next = numbers[1:] == numbers[:-1]
    touches = (ends[:-1] == starts[1:]) & (looks[:-1] == looks[1:])
    is_plain[numbers[:-1][is_next & ((ends[:-1] > starts[1:]) | touches)]] = False
    is_plain[numbers[ends <= starts]] = False
    last = np.full(len(is_plain), -1)
    last[numbers] = order  # of several places the last one stays
    return last


def _taken(column: np.ndarray, places: np.ndarray) -> np.ndarray:
    return column[places] if len(column) else np.zeros(len(places), np.int64)
