"""Values that events do not tell, so that rows keep those that they have. Pure.

A database may leave out a large value that an update has not changed. Such an event lists the columns that it says
nothing of, in a column of its own: see `UpsertRules.kept_columns`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.errors import SchemaMismatch
from ducklake_core.spec.arrays import single
from ducklake_core.spec.names import fold


@dataclass(frozen=True, slots=True, eq=False)
class Untold:
    """What no event of the batch tells of rows.

    `cells`: by column, a mask over the rows of the last events. `places`: events as they arrived, key by key; those of
    key number n, after its last delete, are `places[begins[n] : ends[n] + 1]`.
    """

    cells: Mapping[str, np.ndarray]
    places: np.ndarray
    begins: np.ndarray
    ends: np.ndarray

    def lacks(self, rows: np.ndarray) -> np.ndarray:
        """Tell of some rows whether they lack a value."""
        return np.asarray(np.logical_or.reduce([mask[rows] for mask in self.cells.values()]))

    def columns_of(self, rows: np.ndarray) -> list[str]:
        """Return the columns that some of the rows lack."""
        return [name for name, mask in self.cells.items() if mask[rows].any()]

    def events_of(self, numbers: np.ndarray) -> list[int]:
        """Return the events that say a part of the rows of some keys, by their place in the batch."""
        spans = zip(self.begins[numbers], self.ends[numbers], strict=True)
        return [int(place) for begin, end in spans for place in self.places[begin : end + 1]]


def untold_values(data: pa.Table, column: str | None) -> dict[str, np.ndarray]:
    """Return which events do not tell a column, as masks by the folded names of columns; `column` has the lists.

    Raises SchemaMismatch where it has none, or names a column that the events lack.
    """
    if column is None:
        return {}
    names = {fold(name): name for name in data.column_names}
    lists = single(data.column(names[fold(column)])) if fold(column) in names else None
    if lists is None or not (pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)):
        raise SchemaMismatch(
            f"kept_columns is '{column}', but the events have no such column of lists of names", columns=[column]
        )
    events, told = pc.list_parent_indices(lists).to_numpy(), pc.list_flatten(lists).cast(pa.string())
    found: dict[str, np.ndarray] = {}
    for name in pc.unique(told).drop_null().to_pylist():
        if fold(name) not in names:
            raise SchemaMismatch(f"'{column}' of an event lists '{name}', which is no column of it", columns=[name])
        mask = found.setdefault(fold(name), np.zeros(data.num_rows, bool))
        mask[events[np.asarray(pc.fill_null(pc.equal(told, name), False))]] = True  # noqa: FBT003 # Arrow's signature
    return found
