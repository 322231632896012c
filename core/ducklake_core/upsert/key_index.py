"""Keys by number: which of a batch's keys each of many rows has. Pure; vectorised, so that whole files can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.spec.arrays import plain, single

MISSING = -1


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """One column of the keys: its values, and which pairs of (number so far, value) there are, as one number each."""

    values: pa.Array
    pairs: np.ndarray  # sorted

    def number(self, so_far: np.ndarray, column: pa.Array) -> np.ndarray:
        """Return the numbers of keys up to this column; MISSING where there is no such key."""
        places = pc.index_in(column, value_set=self.values).fill_null(MISSING).to_numpy(zero_copy_only=False)
        wanted = so_far * len(self.values) + places
        found = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
        is_known = (so_far != MISSING) & (places != MISSING) & (self.pairs[found] == wanted)
        return np.where(is_known, found, MISSING)


class KeyIndex:
    """The distinct keys of some rows, numbered from 0 to `count`. `numbers`: which key each of those rows has."""

    def __init__(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> None:
        arrays = [plain(single(column)) for column in columns]
        self._levels: list[_Level] = []
        numbers = np.zeros(len(arrays[0]), np.int64)
        for array in arrays:
            values = pc.unique(array)
            places = pc.index_in(array, value_set=values).to_numpy(zero_copy_only=False).astype(np.int64)
            pairs, numbers = np.unique(numbers * len(values) + places, return_inverse=True)
            self._levels.append(_Level(values, pairs))
        self.numbers: np.ndarray = numbers
        self.count = len(self._levels[-1].pairs)

    def values(self, place: int) -> pa.Array:
        """Return the distinct values of one column of the keys."""
        return self._levels[place].values

    def find(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> np.ndarray:
        """Return the number of each row's key, MISSING for one that is none of these."""
        arrays = [plain(single(column)) for column in columns]
        numbers = np.zeros(len(arrays[0]), np.int64)
        if not self.count:
            return numbers + MISSING
        for level, array in zip(self._levels, arrays, strict=True):
            numbers = level.number(numbers, array)
        return numbers
