"""Taking nested Arrow arrays apart and putting them together again, without copying what stays as it is.

Pure; runs on driver and executors. A part is an array of the values below one node; validity and offsets stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ducklake_core.spec.arrays import validity_of
from ducklake_core.spec.types import is_list


def plain_nested(array: pa.Array) -> pa.Array:
    """Return a nested array as struct, list or map with offset 0: the layouts that `parts_of` understands."""
    if is_list(array.type) and not pa.types.is_list(array.type):
        # Arrow casts a list view to an invalid list: its values are taken out instead.
        views = pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type)
        array = pa.array(array.to_pylist(), pa.list_(array.type.value_field)) if views else _as_list(array)
    return pa.concat_arrays([array]) if array.offset else array


def _as_list(array: pa.Array) -> pa.Array:
    return array.cast(pa.list_(array.type.value_field))


def parts_of(array: pa.Array) -> list[pa.Array]:
    """Return the arrays below a node made plain: a struct's fields, a list's values, a map's keys and values."""
    if pa.types.is_struct(array.type):
        return [array.field(index) for index in range(array.type.num_fields)]
    if pa.types.is_map(array.type):
        return [array.keys, array.items]
    return [array.values]


def with_parts(array: pa.Array, type_: pa.DataType, parts: Sequence[pa.Array]) -> pa.Array:
    """Return the node, made plain, with other parts below it; `type_` has the new parts' types."""
    if pa.types.is_map(type_):
        parts = [pa.StructArray.from_arrays(parts, fields=[type_.key_field, type_.item_field])]
    buffers = array.buffers()[: 1 if pa.types.is_struct(type_) else 2]
    return pa.Array.from_buffers(type_, len(array), buffers, array.null_count, children=list(parts))


def reachable_parts(array: pa.Array) -> list[pa.Array]:
    """Return the arrays below a node with only the values that rows reach: for statistics."""
    if pa.types.is_struct(array.type):
        return list(array.flatten())
    array = plain_nested(array)
    return [_reached(array, part) for part in parts_of(array)]


def _reached(array: pa.Array, part: pa.Array) -> pa.Array:
    """Leave out what lies before, behind, and under null rows. Arrow's own flatten fails for lists of json or uuid."""
    offsets = array.offsets.to_numpy()
    part = part.slice(offsets[0], offsets[-1] - offsets[0])
    if array.null_count == 0:
        return part
    return part.filter(pa.array(np.repeat(validity_of(array), np.diff(offsets))))
