"""How a message's fields become columns, and values of theirs. Runs on executors; the driver asks for the columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from google.protobuf.json_format import MessageToJson
from google.protobuf.unknown_fields import UnknownFieldSet
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.registry.columns import check_names, struct_of
from ducklake_streaming.formats.registry.errors import UnusableSchema

Descriptor: TypeAlias = Any  # of Protobuf, which publishes no types; so are messages and what is in them
Get: TypeAlias = Callable[[Any], Any]

_WELL_KNOWN = "google.protobuf."
_WRAPPERS = {
    f"{_WELL_KNOWN}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_JSON = {f"{_WELL_KNOWN}{name}" for name in ("Struct", "Value", "ListValue")}
_SCALARS: dict[str, T.DataType] = {
    "double": T.DoubleType(),
    "float": T.FloatType(),
    "int32": T.IntegerType(),
    "int64": T.LongType(),
    "uint32": T.LongType(),
    "uint64": T.DecimalType(20, 0),
    "bool": T.BooleanType(),
    "string": T.StringType(),
    "bytes": T.BinaryType(),
}
# Numbers of types in descriptor.proto, which also say how a field is written: several hold the same.
_NAMES = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "uint64",
    7: "uint32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    15: "int32",
    16: "int64",
    17: "int32",
    18: "int64",
}
_ENUM, _GROUP, _MESSAGE = 14, 10, 11


class UndeclaredField(ValueError):
    """A message has a field that its schema does not know."""


@dataclass(frozen=True, slots=True)
class Column:
    """The type of a column, and how its value is got from what Protobuf has read."""

    kind: T.DataType
    get: Get


def message_column(message: Descriptor, within: tuple[str, ...] = ()) -> Column:
    """Return the column of a message. Raises UnusableSchema."""
    name = message.full_name
    if name in within:
        raise UnusableSchema(f"message '{name}' holds itself, and no column can hold that")
    if name == f"{_WELL_KNOWN}Timestamp":
        return Column(T.TimestampType(), lambda value: value.seconds * 1_000_000 + value.nanos // 1000)
    if name in _WRAPPERS:
        return Column(_scalar(message.fields_by_name["value"]).kind, lambda value: value.value)
    if name in _JSON:
        return Column(T.StringType(), lambda value: MessageToJson(value, indent=None, ensure_ascii=False))
    if not message.fields:
        return Column(T.BooleanType(), lambda _: True)  # that it is there is all it says
    return Column(*fields_of(message, within))


def fields_of(message: Descriptor, within: tuple[str, ...] = ()) -> tuple[T.StructType, Get]:
    """Return the columns of a message's fields, and how their values are got. Raises UnusableSchema."""
    check_names([field.name for field in message.fields])
    columns = {field.name: _field(field, (*within, message.full_name)) for field in message.fields}
    gets = [(name, column.get) for name, column in columns.items()]

    def get(value: Any) -> dict[str, Any]:
        unknown = UnknownFieldSet(value)
        if len(unknown):
            raise UndeclaredField(f"field number {unknown[0].field_number} is not in message '{message.full_name}'")
        return {name: get_one(value) for name, get_one in gets}

    return struct_of({name: column.kind for name, column in columns.items()}), get


def _field(field: Descriptor, within: tuple[str, ...]) -> Column:
    name = field.name
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map(field, within)
    item = _item(field, within)
    if field.is_repeated:
        return Column(T.ArrayType(item.kind), lambda message: [item.get(value) for value in getattr(message, name)])
    if field.has_presence and not field.has_default_value:
        return Column(item.kind, lambda message: item.get(getattr(message, name)) if message.HasField(name) else None)
    return Column(item.kind, lambda message: item.get(getattr(message, name)))


def _map(field: Descriptor, within: tuple[str, ...]) -> Column:
    name, entry = field.name, field.message_type.fields_by_name
    key, item = _item(entry["key"], within), _item(entry["value"], within)

    def get(message: Any) -> dict[Any, Any]:
        return {one: item.get(value) for one, value in getattr(message, name).items()}

    return Column(T.MapType(key.kind, item.kind), get)


def _item(field: Descriptor, within: tuple[str, ...]) -> Column:
    if field.type in {_GROUP, _MESSAGE}:
        return message_column(field.message_type, within)
    return _scalar(field)


def _scalar(field: Descriptor) -> Column:
    if field.type == _ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return Column(T.StringType(), lambda number: names.get(number) or str(number))  # as Protobuf's JSON has it
    return Column(_SCALARS[_NAMES[field.type]], lambda value: value)
