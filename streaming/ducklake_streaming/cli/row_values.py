"""Rows of Arrow as texts of DuckDB, for tables and CSV, and as values of JSON. Nothing is lost on the way. No Spark.

JSON has numbers, texts, lists and objects of them; what it lacks (times, decimals, blobs, NaN) is DuckDB's text of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa

from ducklake_core.model import Column
from ducklake_core.spec.arrays import list_lengths, list_members, plain, single, validity_of
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.text import to_text
from ducklake_core.spec.types import build_columns


def columns_of(schema: pa.Schema) -> tuple[Column, ...]:
    """Return the columns of rows that have a schema of ours."""
    return build_columns(schema)


def text_rows(batch: pa.RecordBatch, columns: Sequence[Column]) -> Iterator[tuple[str | None, ...]]:
    """Yield each row as texts, None for a null."""
    texts = [to_text(array, column).to_pylist() for array, column in zip(batch.columns, columns, strict=True)]
    return iter(zip(*texts, strict=True)) if texts else iter([()] * batch.num_rows)


def json_rows(batch: pa.RecordBatch, columns: Sequence[Column]) -> Iterator[dict[str, object]]:
    """Yield each row as an object of JSON."""
    names = [column.name for column in columns]
    values = [_json_values(single(array), column) for array, column in zip(batch.columns, columns, strict=True)]
    for row in zip(*values, strict=True):
        yield dict(zip(names, row, strict=True))


def _json_values(array: pa.Array, column: Column) -> list[object]:
    encode = _ENCODERS.get(column.kind)
    return list(to_text(array, column).to_pylist()) if encode is None else encode(array, column)


def _plain_values(array: pa.Array, _: Column) -> list[object]:
    return list(plain(array).to_pylist())


def _integers(array: pa.Array, _: Column) -> list[object]:
    """Those of 128 bits are decimals in Arrow."""
    return [int(value) if isinstance(value, Decimal) else value for value in array.to_pylist()]


def _floats(array: pa.Array, column: Column) -> list[object]:
    pairs = zip(array.to_pylist(), to_text(array, column).to_pylist(), strict=True)
    return [value if value is None or math.isfinite(value) else text for value, text in pairs]


def _objects(array: pa.Array, column: Column) -> list[object]:
    names = [child.name for child in column.children]
    values = [_json_values(child, of) for child, of in zip(array.flatten(), column.children, strict=True)]
    rows = zip(*values, strict=True)
    return [
        dict(zip(names, row, strict=True)) if there else None
        for row, there in zip(rows, validity_of(array), strict=True)
    ]


def _lists(array: pa.Array, column: Column) -> list[object]:
    return _shared_out(array, _json_values(single(list_members(array)[0]), column.children[0]))


def _shared_out(array: pa.Array, members: list[Any]) -> list[Any]:  # Any: values of JSON
    """Return the members of each list or map; a null has none, and stays one."""
    ends = pairwise(accumulate(list_lengths(array).tolist(), initial=0))
    return [members[start:end] if there else None for (start, end), there in zip(ends, validity_of(array), strict=True)]


def _maps(array: pa.Array, column: Column) -> list[object]:
    """Return each map as an object, whose keys are texts."""
    keys, items = list_members(array)
    of_keys, of_items = column.children
    pairs = [*zip(to_text(keys, of_keys).to_pylist(), _json_values(items, of_items), strict=True)]
    return [None if entries is None else dict(entries) for entries in _shared_out(array, pairs)]


_ENCODERS = {
    Kind.BOOLEAN: _plain_values,
    Kind.TEXT: _plain_values,
    Kind.INTEGER: _integers,
    Kind.FLOAT: _floats,
    Kind.STRUCT: _objects,
    Kind.LIST: _lists,
    Kind.MAP: _maps,
}
