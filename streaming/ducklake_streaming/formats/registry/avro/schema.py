"""An Avro schema as a tree without names, and the columns that hold its values. Pure; runs on driver and executors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fastavro.schema import SchemaParseException, UnknownType, parse_schema
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.registry.columns import MAX_DIGITS, check_names, struct_of
from ducklake_streaming.formats.registry.errors import UnusableSchema

LONE_VALUE = "value"  # the column of a schema that is no record
_PLAIN: dict[str, type[T.DataType]] = {
    "boolean": T.BooleanType,
    "int": T.IntegerType,
    "long": T.LongType,
    "float": T.FloatType,
    "double": T.DoubleType,
    "bytes": T.BinaryType,
    "fixed": T.BinaryType,
    "string": T.StringType,
    "enum": T.StringType,
    "null": T.StringType,  # it is never anything but null
}
# By Avro's type and logical type. One that is not here is read as the type it stands on, as Avro's specification says.
_LOGICAL: dict[tuple[str, str], type[T.DataType]] = {
    ("int", "date"): T.DateType,
    ("int", "time-millis"): T.TimeType,
    ("long", "time-micros"): T.TimeType,
    ("long", "timestamp-millis"): T.TimestampType,
    ("long", "timestamp-micros"): T.TimestampType,
    ("long", "local-timestamp-millis"): T.TimestampNTZType,
    ("long", "local-timestamp-micros"): T.TimestampNTZType,
    ("fixed", "uuid"): T.StringType,
    ("long", "time-nanos"): T.TimeType,
    ("string", "zoned-timestamp-text"): T.TimestampType,
    ("string", "timestamp-text"): T.TimestampNTZType,
    ("string", "date-text"): T.DateType,
    ("string", "time-text"): T.TimeType,
}


# What Debezium and Kafka Connect say of a value beside its Avro type, as a logical type of ours. Times without a zone.
_CONNECT: dict[tuple[str, str], str] = {
    ("int", "io.debezium.time.Date"): "date",
    ("int", "io.debezium.time.Time"): "time-millis",
    ("long", "io.debezium.time.MicroTime"): "time-micros",
    ("long", "io.debezium.time.NanoTime"): "time-nanos",
    ("long", "io.debezium.time.Timestamp"): "local-timestamp-millis",
    ("long", "io.debezium.time.MicroTimestamp"): "local-timestamp-micros",
    ("int", "org.apache.kafka.connect.data.Date"): "date",
    ("int", "org.apache.kafka.connect.data.Time"): "time-millis",
    ("long", "org.apache.kafka.connect.data.Timestamp"): "local-timestamp-millis",
    ("string", "io.debezium.time.ZonedTimestamp"): "zoned-timestamp-text",
    ("string", "io.debezium.time.IsoTimestamp"): "timestamp-text",
    ("string", "io.debezium.time.IsoDate"): "date-text",
    ("string", "io.debezium.time.IsoTime"): "time-text",
}
_VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts. `logical` is empty where it means nothing to us."""

    kind: str
    logical: str = ""
    symbols: tuple[str, ...] = ()  # of an enum
    size: int = 0  # of a fixed
    precision: int = 0  # of a decimal
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """Fields in the order in which they are written. `is_decimal`: they are the scale and the digits of one number."""

    fields: tuple[tuple[str, Node], ...]
    is_decimal: bool = False


@dataclass(frozen=True, slots=True)
class Union:
    """One of several; None stands for null. Each branch has a name, of which it may become a field."""

    branches: tuple[tuple[str, Node] | None, ...]

    @property
    def values(self) -> list[tuple[str, Node]]:
        return [branch for branch in self.branches if branch is not None]


@dataclass(frozen=True, slots=True)
class Array:
    """Values of one kind."""

    item: Node


@dataclass(frozen=True, slots=True)
class Map:
    """Values of one kind by a text."""

    item: Node


Node: TypeAlias = Scalar | Record | Union | Array | Map


def parse_avro(text: str, references: Sequence[tuple[str, str]] = (), *, of_connect: bool = False) -> Record:
    """Read a schema, after those that it refers to. Raises UnusableSchema.

    `of_connect`: what Kafka Connect and Debezium say of values beside their Avro types counts.
    """
    named: dict[str, Any] = {}  # Any: JSON
    try:
        for _, reference in references:
            parse_schema(json.loads(reference), named_schemas=named)
        parsed = parse_schema(json.loads(text), named_schemas=named)
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnusableSchema(f"it is no Avro schema: {error!r}") from error
    node = _Walk(named, of_connect=of_connect).node(parsed, ())
    return node if isinstance(node, Record) else Record(((LONE_VALUE, node),))


def column_of(node: Node) -> T.DataType:  # noqa: PLR0911 # one for each kind of node
    """Return the Spark type that holds the values. Raises UnusableSchema."""
    match node:
        case Scalar(logical="decimal"):
            return T.DecimalType(node.precision, node.scale) if node.precision <= MAX_DIGITS else T.StringType()
        case Scalar():
            return _LOGICAL.get((node.kind, node.logical), _PLAIN[node.kind])()
        case Record():
            return T.StringType() if node.is_decimal else columns_of(node)
        case Array():
            return T.ArrayType(column_of(node.item))
        case Map():
            return T.MapType(T.StringType(), column_of(node.item))
        case Union() if len(node.values) > 1:
            return columns_of(Record(tuple(node.values)))
        case Union():
            return column_of(node.values[0][1]) if node.values else T.StringType()


def columns_of(record: Record) -> T.StructType:
    """Return a column for each field. Raises UnusableSchema."""
    check_names([name for name, _ in record.fields])
    return struct_of({name: column_of(node) for name, node in record.fields})


class _Walk:
    """Makes the tree; names are as fastavro has resolved them."""

    def __init__(self, named: Mapping[str, Any], *, of_connect: bool) -> None:  # Any: JSON
        self._named = named
        self._of_connect = of_connect

    def node(self, schema: Any, within: tuple[str, ...]) -> Node:  # noqa: PLR0911 # one for each kind; Any: JSON
        if isinstance(schema, str):
            return self.node(self._named[schema], within) if schema in self._named else Scalar(schema)
        if isinstance(schema, list):
            return self._union(schema, within)
        match schema["type"]:
            case "record" | "error":
                return self._record(schema, within)
            case "array":
                return Array(_item(self.node(schema["items"], within)))
            case "map":
                return Map(self.node(schema["values"], within))
            case str(kind) if kind in _PLAIN:
                return self._named_scalar(kind, schema) or _scalar(kind, schema)
            case other:
                return self.node(other, within)

    def _record(self, schema: Any, within: tuple[str, ...]) -> Record:  # Any: JSON
        name = schema["name"]
        if name in within:
            raise UnusableSchema(f"record '{name}' holds itself, and no column can hold that")
        fields = [(field["name"], self.node(field["type"], (*within, name))) for field in schema["fields"]]
        return Record(tuple(fields), is_decimal=self._of_connect and name == _VARIABLE_DECIMAL)

    def _named_scalar(self, kind: str, schema: Any) -> Scalar | None:  # Any: JSON
        """Return what Kafka Connect calls by a name of its own."""
        logical = _CONNECT.get((kind, schema.get("connect.name", ""))) if self._of_connect else None
        return None if logical is None else Scalar(kind, logical)

    def _union(self, schemas: list[Any], within: tuple[str, ...]) -> Union:  # Any: JSON
        names = _branch_names([self._type_name(schema) for schema in schemas])
        nodes = [self.node(schema, within) for schema in schemas]
        return Union(
            tuple(None if node == Scalar("null") else (name, node) for name, node in zip(names, nodes, strict=True))
        )

    def _type_name(self, schema: Any) -> str:  # Any: JSON
        if isinstance(schema, str):
            return schema
        return str(schema.get("name") or self._type_name(schema["type"]))


def _item(node: Node) -> Node:
    """Refuse items without bytes: of those, a broken array can claim any number, and no memory would hold them."""
    if _is_empty(node):
        raise UnusableSchema("it has an array of items that hold nothing")
    return node


def _is_empty(node: Node) -> bool:
    match node:
        case Scalar():
            return node.kind == "null" or (node.kind == "fixed" and node.size == 0)
        case Record():
            return all(_is_empty(field) for _, field in node.fields)
        case _:
            return False


def _branch_names(full: list[str]) -> list[str]:
    """Return short names where they are enough to tell the branches of a union apart."""
    short = [name.rpartition(".")[2] for name in full]
    return (
        short if len({name.casefold() for name in short}) == len(short) else [name.replace(".", "_") for name in full]
    )


def _scalar(kind: str, schema: Any) -> Scalar:  # Any: JSON
    symbols, size = tuple(schema.get("symbols", ())), int(schema.get("size", 0))
    logical = schema.get("logicalType", "")
    if logical == "decimal" and kind in {"bytes", "fixed"} and _is_decimal(schema):
        return Scalar(kind, "decimal", size=size, precision=schema["precision"], scale=schema.get("scale", 0))
    if (kind, logical) == ("fixed", "uuid") and size != 16:
        logical = ""
    return Scalar(kind, logical if (kind, logical) in _LOGICAL else "", symbols, size)


def _is_decimal(schema: Any) -> bool:  # Any: JSON
    """Tell whether precision and scale make sense; Avro's specification takes others for plain bytes."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    return isinstance(precision, int) and isinstance(scale, int) and precision > 0 and 0 <= scale <= precision
