"""Arrow's arrays of NumPy's, and back, by their buffers alone. Pure; runs everywhere.

`pa.array`, `to_numpy` and scalars of Python's values import pandas when one is first made, if it is installed: a fifth
of a second in each new Python process of Spark. What reads files and feeds does without.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa


def from_integers(values: np.ndarray) -> pa.Array:
    """Return integers of any width as an array, without a copy if they are contiguous."""
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, data])


def from_mask(kept: np.ndarray) -> pa.Array:
    """Return booleans as an array."""
    return pa.Array.from_buffers(pa.bool_(), len(kept), [None, pa.py_buffer(np.packbits(kept, bitorder="little"))])


def from_texts(texts: Sequence[str]) -> pa.Array:
    """Return a few texts as an array."""
    encoded = [text.encode() for text in texts]
    offsets = np.array([0, *accumulate(map(len, encoded))], np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )


def integers_of(array: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return an array of int64 as NumPy's, without a copy if it has one chunk; any other as Arrow makes it."""
    if array.type != pa.int64() or array.null_count:
        return np.asarray(array.to_numpy())
    chunks = [array] if isinstance(array, pa.Array) else array.chunks
    parts = [np.frombuffer(one.buffers()[1], np.int64, len(one), one.offset * 8) for one in chunks if len(one)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, np.int64)
