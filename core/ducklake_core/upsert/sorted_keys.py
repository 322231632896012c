"""Integers in their order, so that those of a batch are found without a look at the others. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ducklake_core.spec.arrays import plain, single

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class WantedIntegers:
    """Distinct integers in their order, and the number of the key that each one is."""

    values: np.ndarray
    numbers: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> WantedIntegers:
        """Take the values of keys, by their numbers."""
        if _is_sorted(values):
            return cls(values, np.arange(len(values)))
        order = np.argsort(values)
        return cls(values[order], order)


@dataclass(frozen=True, slots=True, eq=False)
class SortedKeys:
    """The values of some rows, sorted. `places`: the row that each is of; None: the rows are in this order."""

    values: np.ndarray
    places: np.ndarray | None

    @classmethod
    def of(cls, values: np.ndarray) -> SortedKeys:
        """Take the values of rows, by their places."""
        if _is_sorted(values):
            return cls(values, None)
        places = np.argsort(values, kind="stable")
        return cls(values[places], places)

    def find(self, wanted: WantedIntegers) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows have a key, and its number."""
        firsts, ends = self.values.searchsorted(wanted.values), self.values.searchsorted(wanted.values, "right")
        counts = ends - firsts
        some = counts.nonzero()[0]
        if not len(some):
            return _NONE, _NONE
        found, numbers = firsts[some], wanted.numbers[some]
        if counts.max() > 1:
            counts = counts[some]
            found = np.repeat(found - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            numbers = np.repeat(numbers, counts)
        return (found if self.places is None else self.places[found]), numbers


def _is_sorted(values: np.ndarray) -> bool:
    return len(values) < 2 or bool((values[1:] >= values[:-1]).all())


def integers_of(column: pa.ChunkedArray) -> np.ndarray | None:
    """Return a column as integers, None if it has others or nulls."""
    array = plain(single(column))
    return np.asarray(array.to_numpy()) if pa.types.is_integer(array.type) and not array.null_count else None
