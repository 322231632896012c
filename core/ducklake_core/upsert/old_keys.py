"""Events that give a row another key: a delete of the old key is put before each, so that no row of it stays. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.errors import SchemaMismatch
from ducklake_core.model import Column, TableVersion
from ducklake_core.plan.conform import conform_column
from ducklake_core.spec.arrays import single
from ducklake_core.spec.names import fold
from ducklake_core.upsert.differences import differ


def with_old_keys(
    data: pa.Table, column: str | None, keys: Sequence[Column], table: TableVersion
) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """Return events with those that delete old keys; which event each is made of, and which of them are such deletes.

    `column` has structs of the keys of before, null where these are not told. Raises SchemaMismatch where it has none.
    """
    all_events, names = np.arange(data.num_rows), {fold(name): name for name in data.column_names}
    if column is None or any(fold(key.name) not in names for key in keys):  # which is refused elsewhere
        return data, all_events, np.zeros(data.num_rows, bool)
    given = _structs(data, column, keys)
    moved = np.flatnonzero(single(given.is_valid()).to_numpy(zero_copy_only=False))
    new = _conformed([data.column(names[fold(key.name)]) for key in keys], keys, table)
    fields = {fold(given.type.field(place).name): place for place in range(given.type.num_fields)}
    told = given.take(moved)
    old = _conformed([pc.struct_field(told, fields[fold(key.name)]) for key in keys], keys, table)
    is_other = differ(new.take(moved), old)
    moved, old = moved[is_other], old.filter(pa.array(is_other))
    events = np.sort(np.concatenate([all_events, moved]), kind="stable")
    is_old = np.zeros(len(events), bool)
    is_old[moved + np.arange(len(moved))] = True  # the first of the two
    sources = np.where(is_old, data.num_rows - 1 + np.cumsum(is_old), events)
    data = data.take(events)
    for key in keys:
        both = pa.chunked_array([*new.column(key.name).chunks, *old.column(key.name).chunks])
        name = names[fold(key.name)]
        data = data.set_column(data.column_names.index(name), name, both.take(sources))
    return data, events, is_old


def _structs(data: pa.Table, column: str, keys: Sequence[Column]) -> pa.ChunkedArray:
    names = {fold(name): name for name in data.column_names}
    found = data.column(names[fold(column)]) if fold(column) in names else None
    fields = {fold(field.name) for field in found.type} if found is not None and pa.types.is_struct(found.type) else ()
    if found is None or not all(fold(key.name) in fields for key in keys):
        raise SchemaMismatch(
            f"old_keys is '{column}', but the events have no such column of structs with all keys", columns=[column]
        )
    return found


def _conformed(columns: Sequence[pa.ChunkedArray], keys: Sequence[Column], table: TableVersion) -> pa.Table:
    arrays = [conform_column(c, key, table.qualified_name) for c, key in zip(columns, keys, strict=True)]
    return pa.table(arrays, names=[key.name for key in keys])
