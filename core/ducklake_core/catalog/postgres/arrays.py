"""What PostgreSQL sends of one column → the Arrow array of its type, however it came. Pure.

`copy_decode` finds the values in a COPY, `joined_decode` in what the server has joined.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from ducklake_core.catalog.postgres.encode import postgres_type, select_cast
from ducklake_core.errors import CorruptCatalog
from ducklake_core.model import Column
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.text import from_text
from ducklake_core.spec.types import arrow_type

# The binary form of each type of fixed width.
FIXED_FORMS: Mapping[str, str] = {
    "BOOLEAN": "u1",
    "SMALLINT": ">i2",
    "INTEGER": ">i4",
    "BIGINT": ">i8",
    "REAL": ">f4",
    "DOUBLE PRECISION": ">f8",
    "TIME": ">i8",
    "UUID": "V16",
    "INTERVAL": "V16",
}
_INTERVAL = np.dtype([("microseconds", ">i8"), ("days", ">i4"), ("months", ">i4")])
_ARROW_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
_MAX_MICROSECONDS = (2**63 - 1) // 1000


def fixed_form(column: Column) -> str | None:
    """Return the numpy type of the values that PostgreSQL sends; None when they are of any length."""
    return FIXED_FORMS.get(postgres_type(column).name) if select_cast(column) is None else None


def fixed_array(values: np.ndarray, valid: np.ndarray, column: Column) -> pa.Array:
    """Return the array of `arrow_type(column)` of values in their `fixed_form`; those of nulls are arbitrary."""
    type_, validity, name = arrow_type(column), validity_buffer(valid), postgres_type(column).name
    if name == "BOOLEAN":
        bits = np.packbits(values != 0, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [validity, pa.py_buffer(bits)])
    if name == "UUID":
        storage = pa.Array.from_buffers(pa.binary(16), len(values), [validity, pa.py_buffer(values.tobytes())])
        return pa.ExtensionArray.from_storage(type_, storage)
    if name == "INTERVAL":
        intervals = _intervals(values.view(_INTERVAL), valid, column)
        return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(intervals)])
    stored = pa.int64() if name == "TIME" else type_
    numbers = values.astype(stored.to_pandas_dtype())
    return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(numbers)])


def _intervals(values: np.ndarray, valid: np.ndarray, column: Column) -> np.ndarray:
    """Return intervals as Arrow has them; an infinite one of PostgreSQL 17 is as far beyond it as can be."""
    microseconds = np.where(valid, values["microseconds"], 0).astype(np.int64)
    if (microseconds > _MAX_MICROSECONDS).any() or (microseconds < -_MAX_MICROSECONDS).any():
        raise CorruptCatalog(f"column '{column.name}' holds an interval of more than 292 years of hours, or no end")
    found = np.zeros(len(values), _ARROW_INTERVAL)
    found["months"], found["days"] = values["months"], values["days"]
    found["nanoseconds"] = microseconds * 1000
    return found


def bytes_array(cells: pa.Array, column: Column) -> pa.Array:
    """Return the array of `arrow_type(column)` of a binary array of blobs or texts.

    Texts of the user's are not checked to be UTF-8: the server keeps them as bytes, and who reads looks at whole rows.
    """
    if column.type == "blob":
        return cells
    if column.kind is Kind.TEXT:
        texts = cells.view(pa.string())
        return texts if column.type == "varchar" else from_text(texts, column)
    return from_text(cells.cast(pa.string()), column)


def validity_buffer(valid: np.ndarray) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
