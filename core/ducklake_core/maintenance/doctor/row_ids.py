"""A set of row ids that takes a bit for each: rows of a table are numbered from 0 on, with few gaps."""

from __future__ import annotations

import numpy as np

_CHUNK = 2**23  # row ids, of which the bits are a megabyte


class RowIdSet:
    """Remembers which row ids it has seen."""

    def __init__(self) -> None:
        self._chunks: dict[int, np.ndarray] = {}

    def add(self, row_ids: np.ndarray) -> list[int]:
        """Take in row ids, and return those that were there before, or are given twice."""
        ordered = np.sort(row_ids)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        found = [repeated]
        once = np.unique(ordered)
        for chunk in np.unique(once // _CHUNK).tolist():
            inside = once[once // _CHUNK == chunk]
            bits = self._chunks.setdefault(chunk, np.zeros(_CHUNK // 8, np.uint8))
            places = inside - chunk * _CHUNK
            masks = (np.uint8(1) << (places % 8).astype(np.uint8)).astype(np.uint8)
            found.append(inside[bits[places // 8] & masks > 0])
            np.bitwise_or.at(bits, places // 8, masks)
        return [int(row_id) for row_id in np.concatenate(found)]
