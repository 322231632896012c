"""Avro values one after the other, by fastavro: for every schema, and with a reason for each that is broken."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from io import BytesIO
from itertools import count
from typing import Any

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader

from ducklake_streaming.formats.registry.avro.schema import Array, Map, Node, Record, Scalar, Union
from ducklake_streaming.formats.registry.values import Reasons, build
from ducklake_streaming.formats.registry.wire import HEADER_BYTES

_ARROW = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
# What fastavro raises for bytes that are no value of a schema. It has no error of its own for that.
_BROKEN = (EOFError, IndexError, KeyError, TypeError, ValueError, OverflowError, MemoryError, AssertionError)


class _Payload(BytesIO):
    """Bytes that end: fastavro takes some values for there that are not, as often as a broken array says."""

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        if size is None or len(found) != size:
            raise EOFError
        return found


class AvroRows:
    """Reads values by fastavro, without logical types: those are made of whole columns later."""

    def __init__(self, schema: Record) -> None:
        self._schema = schema

    @cached_property
    def _parsed(self) -> Any:  # Any: fastavro's
        return parse_schema(_plain_schema(self._schema, (f"n{number}" for number in count())))

    @cached_property
    def kind(self) -> pa.StructType:
        return plain_type(self._schema)

    def read(self, records: pa.BinaryArray, reasons: Reasons) -> pa.StructArray:
        """Return the values; those that cannot be read are null, with a reason."""
        values = [self._read(record.as_py(), row, reasons) for row, record in enumerate(records)]
        return build(values, self.kind, reasons)

    def _read(self, record: bytes, row: int, reasons: Reasons) -> object:
        file = _Payload(record)
        file.seek(HEADER_BYTES)
        try:
            value = schemaless_reader(file, self._parsed, None)
        except _BROKEN as error:
            reasons.add(row, f"the value does not fit its Avro schema: {_told(error)}")
            return None
        if file.tell() != len(record):
            left = len(record) - file.tell()
            reasons.add(row, f"the Avro value ends {left} bytes before the record does: it fits another schema")
            return None
        return value


def plain_type(node: Node) -> pa.DataType:
    """Return the Arrow type of values without their logical types."""
    match node:
        case Scalar():
            return _ARROW[node.kind]
        case Record():
            return pa.struct([pa.field(name, plain_type(field)) for name, field in node.fields])
        case Array():
            return pa.list_(pa.field("element", plain_type(node.item)))
        case Map():
            return pa.map_(pa.string(), plain_type(node.item))
        case Union() if len(node.values) > 1:
            return plain_type(Record(tuple(node.values)))
        case Union():
            return plain_type(node.values[0][1]) if node.values else pa.string()


def _plain_schema(node: Node, names: Iterator[str]) -> Any:  # noqa: PLR0911 # one for each kind of node; Any: JSON
    """Return a schema of the same bytes whose values Arrow takes as they are.

    A branch of a union becomes a record of one field, which is written like the field alone: so each value tells which
    branch it is.
    """
    match node:
        case Scalar(kind="enum"):
            return {"type": "enum", "name": next(names), "symbols": list(node.symbols)}
        case Scalar(kind="fixed"):
            return {"type": "fixed", "name": next(names), "size": node.size}
        case Scalar():
            return node.kind
        case Record():
            fields = [{"name": name, "type": _plain_schema(field, names)} for name, field in node.fields]
            return {"type": "record", "name": next(names), "fields": fields}
        case Array():
            return {"type": "array", "items": _plain_schema(node.item, names)}
        case Map():
            return {"type": "map", "values": _plain_schema(node.item, names)}
        case Union():
            is_struct = len(node.values) > 1
            return [_plain_branch(branch, names, is_struct=is_struct) for branch in node.branches]


def _plain_branch(branch: tuple[str, Node] | None, names: Iterator[str], *, is_struct: bool) -> Any:  # Any: JSON
    if branch is None:
        return "null"
    return _plain_schema(Record((branch,)) if is_struct else branch[1], names)


def _told(error: BaseException) -> str:
    return "it ends too early" if isinstance(error, EOFError) else f"{type(error).__name__}: {error}"
