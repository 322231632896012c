"""What becomes of each key of a batch: pure, by masks over the numbers of keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What is to be done; `matched` are rows that the event may change: whether it does, their values tell."""

    is_late: np.ndarray
    is_inserted: np.ndarray
    is_matched: np.ndarray
    is_deleted: np.ndarray

    @property
    def is_applied(self) -> np.ndarray:
        return ~self.is_late


def decide(is_delete: np.ndarray, exists: np.ndarray, is_late: np.ndarray) -> Decision:
    """Decide by whether the last event is a delete, whether the table has the key, and whether it knows a later event.

    A late event changes nothing. A delete of a key that the table lacks does nothing to the table.
    """
    brings_row = ~is_delete & ~is_late
    return Decision(is_late, brings_row & ~exists, brings_row & exists, is_delete & exists & ~is_late)


def duplicates(numbers: np.ndarray, count: int) -> np.ndarray:
    """Return which keys more than one row has, as a mask over the keys."""
    return np.bincount(numbers, minlength=count) > 1


def first_of_each(numbers: np.ndarray, row_ids: np.ndarray) -> np.ndarray:
    """Return which rows have the lowest row id of their key, one for each, as a mask over the rows."""
    order = np.lexsort((row_ids, numbers))
    is_first = np.r_[True, numbers[order][1:] != numbers[order][:-1]][: len(order)]
    found = np.zeros(len(numbers), bool)
    found[order[is_first]] = True
    return found
