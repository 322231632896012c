"""DuckLake types ⇄ Arrow types, and the text of types.

A table's column tree *is* its type tree (`model.Column`); this file builds such trees from Arrow schemas and from
type texts, and turns them back into Arrow. Pure; runs everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from ducklake_core.errors import InvalidInput, UnsupportedType
from ducklake_core.model import Column, ColumnId
from ducklake_core.spec.kinds import NESTED, Kind, decimal_parameters, kind_of
from ducklake_core.spec.names import quoted

FIELD_ID = b"PARQUET:field_id"
ROW_ID_FIELD = 2147483540  # `_ducklake_internal_row_id` in a data file
SNAPSHOT_ID_FIELD = 2147483539  # `_ducklake_internal_snapshot_id`
ROW_ID_NAME = "_ducklake_internal_row_id"
SNAPSHOT_ID_NAME = "_ducklake_internal_snapshot_id"
INTERNAL_NAMES = frozenset((ROW_ID_NAME, SNAPSHOT_ID_NAME))  # compared regardless of case

SCALARS: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    # 39 digits: one more than decimal128 can hold.
    "int128": pa.decimal256(39, 0),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "uint128": pa.decimal256(39, 0),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "time": pa.time64("us"),
    "time_ns": pa.time64("ns"),
    # Arrow has no time with an offset: its text, such as `12:34:56+02`.
    "timetz": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp_s": pa.timestamp("s"),
    "timestamp_ms": pa.timestamp("ms"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "interval": pa.month_day_nano_interval(),
    "varchar": pa.string(),
    "json": pa.json_(),
    "blob": pa.binary(),
    "uuid": pa.uuid(),
    "geometry": pa.binary(),
    # No Arrow form yet: tables may have such columns, reading or writing them is refused by name.
    "variant": pa.null(),
    "unknown": pa.null(),
}

# How numpy has the values of types that Arrow has as numbers of one size: ticks, days, and numbers themselves.
NUMPY_TYPES: Mapping[str, str] = {
    **{f"int{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
    "float32": "<f4",
    "float64": "<f8",
    "date": "<i4",
    **dict.fromkeys(("time", "time_ns"), "<i8"),
    **dict.fromkeys(("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz"), "<i8"),
}

# What people type, in SQL or DuckDB's own words, for the format's names.
_ALIASES: Mapping[str, str] = {
    "bool": "boolean",
    "tinyint": "int8",
    "smallint": "int16",
    "integer": "int32",
    "int": "int32",
    "bigint": "int64",
    "hugeint": "int128",
    "utinyint": "uint8",
    "usmallint": "uint16",
    "uinteger": "uint32",
    "ubigint": "uint64",
    "uhugeint": "uint128",
    "real": "float32",
    "float": "float32",
    "double": "float64",
    "string": "varchar",
    "text": "varchar",
    "bytea": "blob",
    "timestamp_us": "timestamp",
    "datetime": "timestamp",
    "timestamp with time zone": "timestamptz",
    "time with time zone": "timetz",
}

_FROM_ARROW: Mapping[pa.DataType, str] = {
    **{arrow: name for name, arrow in SCALARS.items() if name not in ("uint128", "int128", "variant", "unknown")},
    pa.string(): "varchar",
    pa.binary(): "blob",
    pa.float16(): "float32",
    pa.large_string(): "varchar",
    pa.string_view(): "varchar",
    pa.large_binary(): "blob",
    pa.binary_view(): "blob",
    pa.date64(): "date",
    pa.time32("s"): "time",
    pa.time32("ms"): "time",
    pa.json_(pa.large_string()): "json",
}


@dataclass(frozen=True, slots=True)
class TypeNode:
    """A type without ids: the text of its root, and its named children."""

    type: str
    fields: tuple[tuple[str, TypeNode], ...] = ()


def build_columns(schema: pa.Schema | Mapping[str, str | pa.DataType], first_id: int = 1) -> tuple[Column, ...]:
    """Number the nodes of a schema depth first, starting at `first_id`."""
    columns: list[Column] = []
    for name, node, nullable in _schema_nodes(schema):
        column = build_column(name, node, first_id)
        first_id += sum(1 for _ in column.walk())
        columns.append(replace(column, nulls_allowed=nullable))
    return tuple(columns)


def build_column(name: str, node: TypeNode, first_id: int) -> Column:
    """Number the nodes of one column depth first, starting at `first_id`."""
    children: list[Column] = []
    next_id = first_id + 1
    for child_name, child in node.fields:
        column = build_column(child_name, child, next_id)
        next_id += sum(1 for _ in column.walk())
        children.append(column)
    kind = "" if node.fields else "literal"
    return Column(ColumnId(first_id), name, node.type, default_value_type=kind, children=tuple(children))


def _schema_nodes(schema: pa.Schema | Mapping[str, str | pa.DataType]) -> Iterable[tuple[str, TypeNode, bool]]:
    if isinstance(schema, pa.Schema):
        return [(f.name, node_of_arrow(f.type, f.name), f.nullable) for f in schema]
    return [(name, node_of(type_, name), True) for name, type_ in schema.items()]


def node_of(type_: str | pa.DataType, name: str) -> TypeNode:
    """Return the type node of a type text or an Arrow type; `name` is for the error."""
    return parse_type(type_) if isinstance(type_, str) else node_of_arrow(type_, name)


def node_of_arrow(type_: pa.DataType, name: str) -> TypeNode:
    """Return the DuckLake type that holds every value of an Arrow type."""
    if pa.types.is_dictionary(type_):
        return node_of_arrow(type_.value_type, name)
    if pa.types.is_struct(type_):
        if type_.num_fields == 0:
            raise UnsupportedType(f"column '{name}' is a struct without fields, which DuckLake cannot hold")
        return TypeNode("struct", tuple((f.name, node_of_arrow(f.type, f"{name}.{f.name}")) for f in type_))
    if is_list(type_):
        return TypeNode("list", (("element", node_of_arrow(type_.value_type, f"{name}.element")),))
    if pa.types.is_map(type_):
        key, value = node_of_arrow(type_.key_type, f"{name}.key"), node_of_arrow(type_.item_type, f"{name}.value")
        return TypeNode("map", (("key", key), ("value", value)))
    return TypeNode(_scalar_of_arrow(type_, name))


def is_list(type_: pa.DataType) -> bool:
    """Tell whether an Arrow type is a list of any layout."""
    t = pa.types
    layouts = (t.is_list, t.is_large_list, t.is_fixed_size_list, t.is_list_view, t.is_large_list_view)
    return any(is_layout(type_) for is_layout in layouts)


def _scalar_of_arrow(type_: pa.DataType, name: str) -> str:
    if pa.types.is_decimal(type_) and type_.precision <= 38 and 0 <= type_.scale <= type_.precision:
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return "timestamptz"
    if pa.types.is_fixed_size_binary(type_):
        return "blob"
    if type_ in _FROM_ARROW:
        return _FROM_ARROW[type_]
    raise UnsupportedType(
        f"column '{name}' has Arrow type '{type_}', for which DuckLake has no type; cast it first", column=name
    )


# ----------------------------------------------------------------------------------------- to Arrow


def arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type in which the values of a column are read."""
    return _nested_arrow_type(column) if column.is_nested else scalar_arrow_type(column.type)


@lru_cache(maxsize=1024)
def _nested_arrow_type(column: Column) -> pa.DataType:
    if column.kind is Kind.STRUCT:
        return pa.struct([arrow_field(c) for c in column.children])
    if column.kind is Kind.LIST:
        return pa.list_(pa.field("element", arrow_type(column.children[0])))
    key, value = column.children
    return pa.map_(pa.field("key", arrow_type(key), nullable=False), pa.field("value", arrow_type(value)))


@lru_cache(maxsize=1024)
def scalar_arrow_type(type_: str) -> pa.DataType:
    """Return the Arrow type of a type text without children."""
    parameters = decimal_parameters(type_)
    if parameters is not None:
        return pa.decimal128(*parameters)
    try:
        return SCALARS[type_]
    except KeyError:
        raise UnsupportedType(f"'{type_}' is not a DuckLake type", type=type_) from None


def arrow_field(column: Column) -> pa.Field:
    """Return the Arrow field of a column; nulls are always allowed, as in Parquet files of the format."""
    return pa.field(column.name, arrow_type(column))


def identified_field(column: Column) -> pa.Field:
    """Return the Arrow field of a column with its id, and those of its descendants, as Parquet readers find them."""
    type_ = arrow_type(column)
    children = [identified_field(c) for c in column.children]
    if column.kind is Kind.STRUCT:
        type_ = pa.struct(children)
    elif column.kind is Kind.LIST:
        type_ = pa.list_(children[0])
    elif column.kind is Kind.MAP:
        type_ = pa.map_(children[0].with_nullable(nullable=False), children[1])
    return pa.field(column.name, type_, metadata={FIELD_ID: str(column.column_id).encode()})


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of a table's columns; top-level nullability follows the table."""
    return pa.schema([arrow_field(c).with_nullable(c.nulls_allowed) for c in columns])


# ------------------------------------------------------------------------------------------ the text


def stored_type(text: str) -> str | None:
    """Return the type that a catalog row names, without its children, in the usual spelling; None when it is none."""
    name = text.lower().replace(" ", "")
    name = "timestamp" if name == "timestamp_us" else name
    return name if name in SCALARS or kind_of(name) in (*NESTED, Kind.DECIMAL) else None


def type_text(column: Column) -> str:
    """Return the text of a column's whole type, which `parse_type` reads."""
    children = [type_text(child) for child in column.children]
    if column.kind is Kind.STRUCT:
        names = [quoted(child.name) for child in column.children]
        return f"struct({', '.join(f'{name} {text}' for name, text in zip(names, children, strict=True))})"
    if column.kind is Kind.LIST:
        return f"{children[0]}[]"
    return f"map({children[0]}, {children[1]})" if column.kind is Kind.MAP else column.type


def parse_type(text: str) -> TypeNode:
    """Parse a type text: DuckLake's names, DuckDB's names, and DuckDB's syntax of nested types.

    Examples: `int32`, `DECIMAL(9, 2)`, `struct(a int32, "b c" varchar[])`, `map(varchar, int64)`.
    """
    tokens = re.findall(r'"(?:[^"]|"")*"|[A-Za-z_][A-Za-z0-9_]*|\d+|[(),\[\]]|\S', text)
    node, rest = _parse_node(tokens, text)
    if rest:
        raise _bad_type(text)
    return node


def _parse_node(tokens: list[str], text: str) -> tuple[TypeNode, list[str]]:
    if not tokens:
        raise _bad_type(text)
    word, rest = tokens[0].lower(), tokens[1:]
    if word in ("struct", "row", "map", "list") and rest[:1] == ["("]:
        node, rest = _parse_container(word, rest[1:], text)
    elif word in ("decimal", "numeric"):
        node, rest = _parse_decimal(rest, text)
    else:
        if [t.lower() for t in rest[:3]] == ["with", "time", "zone"]:
            word, rest = f"{word} with time zone", rest[3:]
        node = TypeNode(_scalar_name(word, text))
    while rest[:2] == ["[", "]"]:
        node, rest = TypeNode("list", (("element", node),)), rest[2:]
    return node, rest


def _parse_container(word: str, tokens: list[str], text: str) -> tuple[TypeNode, list[str]]:
    fields: list[tuple[str, TypeNode]] = []
    while True:
        name = ""
        if word in ("struct", "row"):
            if len(tokens) < 2:
                raise _bad_type(text)
            name, tokens = _unquote(tokens[0]), tokens[1:]
        node, tokens = _parse_node(tokens, text)
        fields.append((name, node))
        separator, tokens = tokens[:1], tokens[1:]
        if separator == [")"]:
            break
        if separator != [","]:
            raise _bad_type(text)
    kind = "struct" if word == "row" else word
    names = {"list": ["element"], "map": ["key", "value"]}.get(kind, [name for name, _ in fields])
    if len(names) != len(fields):
        raise _bad_type(text)
    return TypeNode(kind, tuple(zip(names, (node for _, node in fields), strict=True))), tokens


def _parse_decimal(tokens: list[str], text: str) -> tuple[TypeNode, list[str]]:
    match tokens:
        case ["(", precision, ",", scale, ")", *rest] if precision.isdigit() and scale.isdigit():
            node = TypeNode(f"decimal({precision},{scale})")
        case ["(", precision, ")", *rest] if precision.isdigit():
            node = TypeNode(f"decimal({precision},0)")
        case _:
            raise InvalidInput(f"type '{text}' lacks precision and scale: write 'decimal(18,3)'", type=text)
    precision_, scale_ = decimal_parameters(node.type) or (0, 0)
    if not 1 <= precision_ <= 38 or scale_ > precision_:
        raise InvalidInput(f"type '{text}': precision must be 1 to 38 and scale at most the precision", type=text)
    return node, rest


def _scalar_name(word: str, text: str) -> str:
    name = _ALIASES.get(word, word)
    if name not in SCALARS:
        raise _bad_type(text)
    return name


def _unquote(token: str) -> str:
    return token[1:-1].replace('""', '"') if token.startswith('"') else token


def _bad_type(text: str) -> InvalidInput:
    return InvalidInput(
        f"'{text}' is not a type: use one of {', '.join(SCALARS)}, decimal(P,S), T[], struct(name T, …), map(K, V)",
        type=text,
    )
