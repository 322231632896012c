"""Arrow arrays of decoded values: built from Python values, fitted into columns, put together. Runs on executors.

A value that does not fit is no reason to lose its neighbours: its row gets a reason, and is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Rows = npt.NDArray[np.int64]
_LONGEST = 1000  # characters of a reason: some have the value in them


@dataclass(slots=True)
class Reasons:
    """Why rows could not be decoded: of each the first reason."""

    by_row: dict[int, str] = field(default_factory=dict)

    def add(self, row: int, reason: str) -> None:
        self.by_row.setdefault(row, reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…")

    def add_all(self, rows: Rows, reason: str) -> None:
        for row in rows.tolist():
            self.add(row, reason)


@dataclass(frozen=True, slots=True)
class Decoded:
    """Values of one schema in the order of the records, and why some are null."""

    values: pa.StructArray
    reasons: Reasons


def build(values: Sequence[Any], kind: pa.DataType, reasons: Reasons) -> pa.Array:  # Any: values of any schema
    """Make an array of Python values. Those that do not fit their type become null, with a reason."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return pa.concat_arrays([_build_one(value, kind, row, reasons) for row, value in enumerate(values)])


def _build_one(value: Any, kind: pa.DataType, row: int, reasons: Reasons) -> pa.Array:  # Any: see build
    try:
        return pa.array([value], kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        reasons.add(row, f"a value is out of range: {error}")
        return pa.nulls(1, kind)


def fit(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in the wider type of their columns: fields by name, missing ones null, numbers promoted."""
    if values.type == kind:
        return values
    if pa.types.is_struct(kind):
        return _fit_struct(values, kind)
    if pa.types.is_map(kind):
        items = fit(values.items, kind.item_type)
        return pa.MapArray.from_arrays(values.offsets, values.keys, items, kind, mask=values.is_null())
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(
            values.offsets, fit(values.values, kind.value_type), kind, mask=values.is_null()
        )
    return values.cast(kind)


def _fit_struct(values: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    found = dict(zip((one.name for one in values.type), values.flatten(), strict=True))
    children = [
        fit(found[one.name], one.type) if one.name in found else pa.nulls(len(values), one.type) for one in kind
    ]
    return struct_array(children, kind, len(values), mask=values.is_null())


def struct_array(
    children: Sequence[pa.Array], kind: pa.StructType, length: int, mask: pa.Array | None
) -> pa.StructArray:
    """Make a struct, also one without fields."""
    if not children:
        empty = pa.array([{}] * length, kind)
        return empty if mask is None else pa.compute.if_else(mask, pa.scalar(None, kind), empty)
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def put_together(parts: Sequence[tuple[Rows, pa.Array]], length: int, kind: pa.DataType) -> pa.Array:
    """Return an array of all rows, of parts that each have some of them; the others are null."""
    if len(parts) == 1 and len(parts[0][0]) == length:
        return parts[0][1]
    places = np.full(length, -1, np.int64)
    start = 0
    for rows, values in parts:
        places[rows] = np.arange(start, start + len(values))
        start += len(values)
    arrays = [values for _, values in parts] or [pa.nulls(0, kind)]
    return pa.concat_arrays(arrays).take(pa.array(places, mask=places < 0))
