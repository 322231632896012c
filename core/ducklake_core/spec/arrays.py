"""Small views on Arrow arrays which the value encodings share. Pure; runs everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.model import Column
from ducklake_core.spec.kinds import Kind


@cache
def no_text() -> pa.Scalar:
    """Return the null of texts. Made when needed: the first value that Arrow makes of Python's imports pandas."""
    return pa.scalar(None, pa.string())


@lru_cache(maxsize=1024)
def text_scalar(text: str) -> pa.Scalar:
    """Return a scalar made once: making one takes longer than a kernel over ten rows."""
    return pa.scalar(text)


def concatenated(*parts: pa.Array | str, between: str = "") -> pa.Array:
    """Join texts row by row; a null part makes a null."""
    scalars = [text_scalar(part) if isinstance(part, str) else part for part in (*parts, between)]
    return pc.call_function("binary_join_element_wise", scalars)


def has_text(texts: pa.Array, part: str) -> bool:
    """Tell whether a part occurs in any of some texts. A look at all bytes is quick, and nearly always says no."""
    data = texts.buffers()[2]
    if data is None or part.encode() not in data.to_pybytes():
        return False
    return bool(pc.any(pc.match_substring(texts, part)).as_py())


def filled(text: pa.Array, instead: str) -> pa.Array:
    """Return texts with their nulls replaced."""
    return text.fill_null(instead) if text.null_count else text


def single(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return one contiguous array."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    if array.num_chunks == 0:
        return pa.nulls(0, array.type)  # combine_chunks cannot make an empty list of an extension type
    return array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()


def plain(array: pa.Array) -> pa.Array:
    """Return the storage of an extension array (uuid, json), any other array as it is."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def list_lengths(array: pa.Array) -> np.ndarray:
    """Return the number of members of each list or map, 0 for a null."""
    offsets = _list_offsets(array)
    lengths = offsets[1:] - offsets[:-1]
    return np.where(validity_of(array), lengths, 0) if array.null_count else lengths


def list_members(array: pa.Array) -> list[pa.Array]:
    """Return the elements of all lists, or the keys and the values of all maps; those of a null do not count.

    Arrow's own `flatten` knows neither maps nor, where there are nulls, extension types.
    """
    children = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    offsets = _list_offsets(array)
    lengths = np.diff(offsets)
    if array.null_count and lengths[~validity_of(array)].any():
        kept = pa.array(np.arange(offsets[0], offsets[-1])[np.repeat(validity_of(array), lengths)])
        return [child.take(kept) for child in children]
    return [child.slice(offsets[0], offsets[-1] - offsets[0]) for child in children]


def _list_offsets(array: pa.Array) -> np.ndarray:
    if len(array) == 0:
        return np.zeros(1, np.int32)
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)


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
    else:
        children = array.flatten() if column.kind is Kind.STRUCT else list_members(array)
        for child, values in zip(column.children, children, strict=True):
            yield from leaves(values, child)
