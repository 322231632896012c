"""Small views on Arrow arrays which the value encodings share. Pure; runs everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.model import Column

NO_TEXT = pa.scalar(None, pa.string())


@lru_cache(maxsize=1024)
def text_scalar(text: str) -> pa.Scalar:
    """Return a scalar made once: making one takes longer than a kernel over ten rows."""
    return pa.scalar(text)


def concatenated(*parts: pa.Array | str, between: str = "") -> pa.Array:
    """Join texts row by row; a null part makes a null."""
    scalars = [text_scalar(part) if isinstance(part, str) else part for part in (*parts, between)]
    return pc.call_function("binary_join_element_wise", scalars)


def single(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return one contiguous array."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    return array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks or [pa.array([], array.type)])


def plain(array: pa.Array) -> pa.Array:
    """Return the storage of an extension array (uuid, json), any other array as it is."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def entries(array: pa.Array) -> pa.Array:
    """Return a map as the list of key-value structs that it is, a list as it is."""
    if not pa.types.is_map(array.type):
        return array
    pair = pa.struct([pa.field("key", array.type.key_type), pa.field("value", array.type.item_type)])
    return array.cast(pa.list_(pair))


def strings_of(matrix: np.ndarray) -> pa.Array:
    """Make an Arrow string array of the rows of a byte matrix."""
    count, width = matrix.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(matrix)])


def validity_of(array: pa.Array) -> np.ndarray:
    """Return one boolean per row: whether it holds a value."""
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def leaves(array: pa.Array, column: Column) -> Iterator[tuple[Column, pa.Array]]:
    """Yield each leaf of a column with its values; a null struct makes nulls of its fields, a null list nothing."""
    if not column.is_nested:
        yield column, array
    elif column.type == "list":
        yield from leaves(array.flatten(), column.children[0])
    else:
        struct = entries(array).flatten() if column.type == "map" else array
        for child, values in zip(column.children, struct.flatten(), strict=True):
            yield from leaves(values, child)
