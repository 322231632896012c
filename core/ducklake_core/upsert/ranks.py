"""Sequences by rank: small integers in the same order, which are compared without Arrow. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.spec.arrays import plain, single

SINCE_EVER = 0  # the rank of a null


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """Some values in their order, without nulls and each once."""

    values: pa.Array

    @classmethod
    def of(cls, *columns: pa.ChunkedArray) -> Ranks:
        arrays = [plain(single(column)) for column in columns]
        distinct = pc.unique(pa.chunked_array(arrays)).drop_null()
        return cls(distinct.take(pc.sort_indices(distinct)))

    def find(self, column: pa.ChunkedArray) -> np.ndarray:
        """Return the ranks of values that are among these; a null comes before all."""
        places = pc.index_in(plain(single(column)), value_set=self.values, skip_nulls=True)
        return np.asarray(places.fill_null(SINCE_EVER - 1).to_numpy(), np.int64) + 1

    def take(self, ranks: Sequence[int] | np.ndarray) -> pa.Array:
        """Return the values of some ranks."""
        places = np.asarray(ranks, np.int64) - 1
        return self.values.take(pa.array(places, mask=places < 0))
