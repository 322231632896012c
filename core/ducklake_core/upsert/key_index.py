"""Keys by number: which of a batch's keys each of many rows has. Pure; vectorised, so that whole files can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.spec.arrays import plain, single
from ducklake_core.upsert.sorted_keys import WantedIntegers

_MOST_BITS = 22


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """One column of the keys: its values, and which pairs of (number so far, value) there are, as one number each."""

    values: pa.Array
    pairs: np.ndarray  # sorted

    def find(self, column: pa.Array, rows: np.ndarray, so_far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return those of some rows that have a key up to this column, and its number."""
        places = pc.index_in(column, value_set=self.values)
        known = pc.indices_nonzero(places.is_valid()).to_numpy()
        rows, so_far = rows[known], so_far[known]
        wanted = so_far * len(self.values) + places.take(known).to_numpy()
        found = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
        is_known = self.pairs[found] == wanted
        return rows[is_known], found[is_known]


class _Sieve:
    """Says of many integers at once which may be among some: a look at their last bits, a tenth of what a set takes."""

    def __init__(self, values: pa.Array) -> None:
        bits = min(max(16, len(values).bit_length() + 5), _MOST_BITS)
        self._mask = (1 << bits) - 1
        self._may_be = np.zeros(self._mask + 1, bool)
        self._may_be[self._last_bits(values)] = True

    def rows(self, column: pa.Array) -> np.ndarray:
        """Return the places of the integers that may be among those."""
        return np.flatnonzero(self._may_be[self._last_bits(column)])

    def _last_bits(self, column: pa.Array) -> np.ndarray:
        numbers = column.to_numpy(zero_copy_only=False)
        return np.asarray(numbers & numbers.dtype.type(self._mask & np.iinfo(numbers.dtype).max))


class KeyIndex:
    """The distinct keys of some rows, numbered from 0 to `count`. `numbers`: which key each of those rows has.

    `integers`: the keys in their order, where they are one column of integers.
    """

    def __init__(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> None:
        arrays = [plain(single(column)) for column in columns]
        self.integers = _integers_once(arrays)
        self._levels: list[_Level] = []
        numbers = np.zeros(len(arrays[0]), np.int64)
        if self.integers is not None:  # each row has a key of its own
            numbers = np.arange(len(arrays[0]))
            self._levels.append(_Level(arrays[0], numbers))
            arrays = []
        for array in arrays:
            encoded = array.dictionary_encode(null_encoding="encode")
            values, places = encoded.dictionary, encoded.indices.to_numpy().astype(np.int64)
            if self._levels:
                pairs, numbers = np.unique(numbers * len(values) + places, return_inverse=True)
            else:  # each value is a key so far
                pairs, numbers = np.arange(len(values)), places
            self._levels.append(_Level(values, pairs))
        self.numbers: np.ndarray = numbers
        self.count = len(self._levels[-1].pairs)
        if self.integers is None:
            self.integers = _integers_once([level.values for level in self._levels])

    def values(self, place: int) -> pa.Array:
        """Return the distinct values of one column of the keys."""
        return self._levels[place].values

    @cached_property
    def numbers_in_order(self) -> np.ndarray:
        """The numbers of the keys in the order of their values, for keys of one column: there each value is a key."""
        return np.asarray(pc.sort_indices(self._levels[0].values).to_numpy().astype(np.int64))

    @cached_property
    def _sieve(self) -> _Sieve | None:
        first = self._levels[0].values
        return _Sieve(first) if pa.types.is_integer(first.type) else None

    def has_same_numbers(self, other: KeyIndex) -> bool:
        """Tell whether another has the same keys, each with the same number."""
        levels = zip(self._levels, other._levels, strict=False)
        is_same = all(a.values.equals(b.values) and np.array_equal(a.pairs, b.pairs) for a, b in levels)
        return len(self._levels) == len(other._levels) and is_same

    def find(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows have one of the keys, by their places, and the number of each one's key."""
        arrays = [plain(single(column)) for column in columns]
        rows = self._candidates(arrays[0]) if self.count else np.arange(0)
        numbers = np.zeros(len(rows), np.int64)
        for level, array in zip(self._levels, arrays, strict=True):
            few = array if len(rows) == len(array) else array.take(pa.array(rows))
            rows, numbers = level.find(few, rows, numbers)
        return rows, numbers

    def _candidates(self, column: pa.Array) -> np.ndarray:
        return np.arange(len(column)) if self._sieve is None or column.null_count else self._sieve.rows(column)


def _integers_once(columns: Sequence[pa.Array]) -> WantedIntegers | None:
    """Return the values of a column alone in their order, if they are integers and each is there once."""
    first = columns[0]
    if len(columns) > 1 or not pa.types.is_integer(first.type) or first.null_count:
        return None
    found = WantedIntegers.of(first.to_numpy())
    return found if (found.values[1:] != found.values[:-1]).all() else None
