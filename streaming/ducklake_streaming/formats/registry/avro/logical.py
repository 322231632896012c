"""From Avro's plain values to those of columns: dates, times, decimals, for whole arrays. Runs on executors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Context, Decimal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_streaming.formats.registry.avro.schema import Array, Map, Node, Record, Scalar, Union, column_of
from ducklake_streaming.formats.registry.columns import MAX_DIGITS, arrow_type
from ducklake_streaming.formats.registry.values import Reasons, Rows, struct_array

_DAY_MILLIS = 86_400_000
_MAX_MILLIS = (2**63 - 1) // 1000
# By logical type: the smallest and the largest value that a column holds, and what makes its unit of Avro's.
_RANGES: dict[str, tuple[int, int, int]] = {
    "time-millis": (0, _DAY_MILLIS - 1, 1_000_000),
    "time-micros": (0, _DAY_MILLIS * 1000 - 1, 1000),
    "time-nanos": (0, _DAY_MILLIS * 1_000_000 - 1, 1),
    "timestamp-millis": (-_MAX_MILLIS, _MAX_MILLIS, 1000),
    "local-timestamp-millis": (-_MAX_MILLIS, _MAX_MILLIS, 1000),
}


def with_logical_types(values: pa.Array, node: Node, rows: Rows, reasons: Reasons) -> pa.Array:
    """Return the values as columns hold them; `rows` says which row each value is of, for what is out of range."""
    match node:
        case Scalar():
            return _scalar(values, node, rows, reasons) if node.logical else values
        case Record():
            return _decimal_texts(values) if node.is_decimal else _record(values, node, rows, reasons)
        case Union() if len(node.values) > 1:
            return _record(values, Record(tuple(node.values)), rows, reasons)
        case Union():
            return with_logical_types(values, node.values[0][1], rows, reasons) if node.values else values
        case Array():
            items = with_logical_types(values.values, node.item, _rows_of_items(values, rows), reasons)
            return pa.ListArray.from_arrays(values.offsets, items, arrow_type(column_of(node)), mask=values.is_null())
        case Map():
            items = with_logical_types(values.items, node.item, _rows_of_items(values, rows), reasons)
            kind = arrow_type(column_of(node))
            return pa.MapArray.from_arrays(values.offsets, values.keys, items, kind, mask=values.is_null())


def _record(values: pa.StructArray, node: Record, rows: Rows, reasons: Reasons) -> pa.StructArray:
    children = [
        with_logical_types(child, field, rows, reasons)
        for child, (_, field) in zip(values.flatten(), node.fields, strict=True)
    ]
    return struct_array(
        children, arrow_type(column_of(node)), len(values), values.is_null() if values.null_count else None
    )


def _rows_of_items(values: pa.Array, rows: Rows) -> Rows:
    return np.repeat(rows, np.diff(values.offsets.to_numpy()))


def _scalar(values: pa.Array, node: Scalar, rows: Rows, reasons: Reasons) -> pa.Array:
    kind = arrow_type(column_of(node))
    if node.logical == "decimal":
        return _decimals(values, node, rows, reasons)
    if node.logical == "uuid":
        return pa.array([None if value is None else str(UUID(bytes=value)) for value in values.to_pylist()], kind)
    if node.logical in _TEXTS:
        return _parsed(values, node.logical, kind, rows, reasons)
    if node.logical not in _RANGES:
        return values.view(kind)
    lowest, highest, factor = _RANGES[node.logical]
    whole = values.cast(pa.int64())
    right = _within(whole, lowest, highest, f"is no {node.logical}", rows, reasons)
    return pc.multiply(right, factor).view(kind)


def _parsed(values: pa.Array, logical: str, kind: pa.DataType, rows: Rows, reasons: Reasons) -> pa.Array:
    """Return the values of texts; those that are no such value become null, with a reason."""
    found = []
    for place, text in enumerate(values.to_pylist()):
        try:
            found.append(None if text is None else _TEXTS[logical](text))
        except ValueError as error:
            reasons.add(int(rows[place]), f"value '{text}' cannot be taken: {error}")
            found.append(None)
    return pa.array(found, kind)


def _instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("it has no time zone")
    return found


# What texts of Debezium are, by their logical type: a Z at the end of one without a zone says nothing.
_TEXTS: dict[str, Callable[[str], date | datetime | time]] = {
    "zoned-timestamp-text": _instant,
    "timestamp-text": lambda text: datetime.fromisoformat(text.removesuffix("Z")),
    "date-text": lambda text: date.fromisoformat(text.removesuffix("Z")),
    "time-text": lambda text: time.fromisoformat(text.removesuffix("Z")),
}


def _decimal_texts(values: pa.StructArray) -> pa.Array:
    """Return numbers of any scale as texts with all their digits."""
    return pa.array([None if one is None else _variable_decimal(**one) for one in values.to_pylist()], pa.string())


def _variable_decimal(scale: int, value: bytes) -> str:
    number = int.from_bytes(value, "big", signed=True)
    return f"{Decimal(number).scaleb(-scale, Context(prec=max(len(str(number)), 1))):f}"


def _within(values: pa.Array, lowest: int, highest: int, problem: str, rows: Rows, reasons: Reasons) -> pa.Array:
    """Return the values within a range; the others become null, with a reason."""
    is_right = pc.and_(pc.greater_equal(values, lowest), pc.less_equal(values, highest)).fill_null(fill_value=True)
    is_wrong = ~is_right.to_numpy(zero_copy_only=False)
    if not is_wrong.any():
        return values
    for place in np.flatnonzero(is_wrong).tolist():
        reasons.add(int(rows[place]), f"value {values[place].as_py()} {problem}")
    return pc.if_else(is_right, values, pa.scalar(None, values.type))


def _decimals(values: pa.Array, node: Scalar, rows: Rows, reasons: Reasons) -> pa.Array:
    unscaled = [None if value is None else int.from_bytes(value, "big", signed=True) for value in values.to_pylist()]
    limit = 10**node.precision
    for place, number in enumerate(unscaled):
        if number is not None and abs(number) >= limit:
            reasons.add(int(rows[place]), f"value {number} has more digits than decimal({node.precision},{node.scale})")
            unscaled[place] = None
    if node.precision > MAX_DIGITS:
        return pa.array([None if number is None else _decimal_text(number, node) for number in unscaled], pa.string())
    return _decimal_array(unscaled, node)


def _decimal_array(unscaled: list[int | None], node: Scalar) -> pa.Array:
    """Make the array of its bytes: as Decimals it would take ten times as long."""
    data = b"".join((number or 0).to_bytes(16, "little", signed=True) for number in unscaled)
    validity = pa.array([number is not None for number in unscaled], pa.bool_()).buffers()[1]
    kind = pa.decimal128(node.precision, node.scale)
    return pa.Array.from_buffers(kind, len(unscaled), [validity, pa.py_buffer(data)])


def _decimal_text(number: int, node: Scalar) -> str:
    return f"{Decimal(number).scaleb(-node.scale, Context(prec=node.precision)):f}"
