"""Makes Arrow data fit a table: columns matched by name, types widened only where no value changes. Pure.

What does not fit is refused by an error that names the column, what it needs and what it got.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.errors import CorruptCatalog, NotNullViolation, SchemaMismatch, UnsupportedType
from ducklake_core.model import Column
from ducklake_core.spec.arrays import leaves, plain
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.memo import per_object, per_object_while_same
from ducklake_core.spec.names import fold, nearest_name
from ducklake_core.spec.text import from_text, parse_literal
from ducklake_core.spec.types import arrow_schema, arrow_type, is_list
from ducklake_core.spec.utf8 import refuse_invalid_text


def conform(data: pa.Table, columns: Sequence[Column], table_name: str, *, fill_missing: bool = False) -> pa.Table:
    """Return the data with exactly the table's columns, in its order and types; its nullability may be the data's own.

    `fill_missing` gives columns that the data lacks their defaults, and fields of structs null; else they are an error.
    A text that is no UTF-8, which no reader could read again, is InvalidInput that names column and row.
    """
    alike = _same_names(tuple(columns), data.schema)
    if alike is not None:
        for place in alike.of_other_types:
            array = conform_column(data.column(place), columns[place], table_name, fill_missing=fill_missing)
            data = data.set_column(place, columns[place].name, array)
        for place in alike.checked:
            _refuse_impossible(data.column(place), columns[place], table_name)
            _refuse_nulls(data.column(place), columns[place], table_name)
        refuse_invalid_text(data, table_name)
        return data
    found = _match_names(data.column_names, columns, table_name)
    missing = [c.name for c in columns if c.name not in found]
    if missing and not fill_missing:
        raise SchemaMismatch(
            f"the data for '{table_name}' lacks columns {_quoted(missing)}: add them, or use fill_missing for defaults",
            columns=missing,
        )
    arrays = []
    for column in columns:
        index = found.get(column.name)
        array = (
            _default(column, data.num_rows)
            if index is None
            else conform_column(data.column(index), column, table_name, fill_missing=fill_missing)
        )
        _refuse_nulls(array, column, table_name)
        arrays.append(array)
    fitted = pa.Table.from_arrays(arrays, names=[c.name for c in columns])
    refuse_invalid_text(fitted, table_name)
    return fitted


class _SameNames(NamedTuple):
    """What to do with data that has the table's columns, in its order, by their places."""

    of_other_types: tuple[int, ...]
    checked: tuple[int, ...]  # whose values must be looked at even when the types are the table's


@per_object_while_same(pa.Schema.equals)
def _same_names(columns: tuple[Column, ...], schema: pa.Schema) -> _SameNames | None:
    """Return what to do with data of a schema; None when it has other names than the table, or another order."""
    wanted = _schema_of(columns)
    if schema.names != wanted.names:
        return None
    types = zip(schema.types, wanted.types, strict=True)
    others = tuple(index for index, (one, other) in enumerate(types) if one != other)
    return _SameNames(others, tuple(i for i, c in enumerate(columns) if not c.nulls_allowed or _checks(c)))


@per_object
def _schema_of(columns: tuple[Column, ...]) -> pa.Schema:
    return arrow_schema(columns)


def conform_column(
    array: pa.ChunkedArray, column: Column, table_name: str, *, fill_missing: bool = False
) -> pa.ChunkedArray:
    """Return one column in the table's type; the common case copies nothing."""
    target = arrow_type(column)
    if array.type != target:
        path = f"{table_name}.{column.name}"
        chunks = [_conform(chunk, column, path, fill_missing=fill_missing) for chunk in array.chunks]
        array = pa.chunked_array(chunks, type=target)
    _refuse_impossible(array, column, table_name)
    return array


def _match_names(names: Sequence[str], columns: Sequence[Column], table_name: str) -> dict[str, int]:
    """Return the position of each column in the data; names match regardless of case, each at most once."""
    by_fold = {fold(c.name): c.name for c in columns}
    found: dict[str, int] = {}
    unknown: list[str] = []
    for index, name in enumerate(names):
        column = by_fold.get(fold(name))
        if column is None:
            unknown.append(name)
        elif column in found:
            raise SchemaMismatch(f"the data for '{table_name}' has column '{column}' twice", columns=[name])
        else:
            found[column] = index
    if unknown:
        near = nearest_name(unknown[0], [c.name for c in columns])
        hint = f"; did you mean '{near}'?" if near else ""
        raise SchemaMismatch(f"table '{table_name}' has no columns {_quoted(unknown)}{hint}", columns=unknown)
    return found


def _default(column: Column, rows: int) -> pa.ChunkedArray:
    target = arrow_type(column)
    if column.default_value is None:
        return pa.chunked_array([pa.nulls(rows, target)])
    if column.default_value_type == "expression":
        raise SchemaMismatch(
            f"column '{column.name}' has the default '{column.default_value}', an expression of DuckDB's SQL that "
            "is not computed here: give the column's values",
            columns=[column.name],
        )
    scalar = parse_literal(column.default_value, column)
    return pa.chunked_array([pa.repeat(scalar, rows)], type=target)


def _refuse_impossible(array: pa.ChunkedArray, column: Column, table_name: str) -> None:
    """Refuse values that Arrow's type allows and DuckLake's does not."""
    checks = _checks(column)
    for chunk in array.chunks if checks else ():
        for leaf, values in leaves(chunk, column):
            if leaf.type in checks and len(values) and not checks[leaf.type](values):
                raise SchemaMismatch(
                    f"column '{table_name}.{column.name}' has a value that is no {leaf.type}: {_RANGES[leaf.type]}",
                    column=column.name,
                )


def _checks(column: Column) -> dict[str, Callable[[pa.Array], bool]]:
    return {node.type: _IS_POSSIBLE[node.type] for node in column.walk() if node.type in _IS_POSSIBLE}


def _is_between(low: int, high: int) -> Callable[[pa.Array], bool]:
    def check(values: pa.Array) -> bool:
        bounds = pc.min_max(values)
        lowest, highest = bounds["min"].as_py(), bounds["max"].as_py()
        return lowest is None or (lowest >= low and highest <= high)

    return check


_TIMETZ = (
    r"^(([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?|24:00(:00(\.0{1,6})?)?)"
    r"[+-](0\d|1[0-5])(:[0-5]\d(:[0-5]\d)?)?$"
)
_RANGES = {
    "int128": "it needs more than 128 bits",
    "uint128": "it is below zero or needs more than 128 bits",
    "timetz": "write it as '12:34:56.789+02:00'",
}
_IS_POSSIBLE: Mapping[str, Callable[[pa.Array], bool]] = {
    "int128": _is_between(-(2**127), 2**127 - 1),
    "uint128": _is_between(0, 2**128 - 1),
    "timetz": lambda values: bool(pc.all(pc.match_substring_regex(values, _TIMETZ), min_count=0).as_py()),
}


def _refuse_nulls(array: pa.ChunkedArray, column: Column, table_name: str) -> None:
    if not column.nulls_allowed and array.null_count:
        row = pc.index(array.is_null(), True).as_py()
        raise NotNullViolation(
            f"column '{column.name}' of '{table_name}' forbids nulls, and row {row} of the data has one",
            column=column.name,
        )


# ------------------------------------------------------------------------------------------- one array


def _conform(array: pa.Array, column: Column, path: str, *, fill_missing: bool) -> pa.Array:
    target = arrow_type(column)
    if array.type == target:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if pa.types.is_dictionary(array.type):
        return _conform(array.dictionary_decode(), column, path, fill_missing=fill_missing)
    if column.is_nested:
        return _conform_nested(array, column, path, fill_missing=fill_missing)
    return _conform_scalar(array, column, path)


def _conform_nested(array: pa.Array, column: Column, path: str, *, fill_missing: bool) -> pa.Array:
    type_, target = array.type, arrow_type(column)
    array = pa.concat_arrays([array]) if array.offset else array  # a slice's children are not sliced
    go = partial(_conform, fill_missing=fill_missing)
    if column.kind is Kind.STRUCT and pa.types.is_struct(type_):
        parts = _conform_fields(array, column, path, fill_missing=fill_missing)
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=array.is_null())
    if column.kind is Kind.LIST and is_list(type_):
        # Arrow's cast, even to the same type, shortens a field of nulls within structs.
        plain_list = array if pa.types.is_list(type_) else array.cast(pa.list_(type_.value_type))
        values = go(plain_list.values, column.children[0], f"{path}.element")
        return pa.ListArray.from_arrays(plain_list.offsets, values, type=target, mask=_mask(plain_list))
    if column.kind is Kind.MAP and pa.types.is_map(type_):
        key, value = column.children
        keys, items = go(array.keys, key, f"{path}.key"), go(array.items, value, f"{path}.value")
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=target, mask=_mask(array))
    raise _mismatch(path, column.type, type_)


def _conform_fields(array: pa.Array, column: Column, path: str, *, fill_missing: bool) -> list[pa.Array]:
    found = _match_names([f.name for f in array.type], column.children, path)
    missing = [c.name for c in column.children if c.name not in found]
    if missing and not fill_missing:
        raise SchemaMismatch(f"the data for '{path}' lacks fields {_quoted(missing)}", columns=missing)
    return [
        _conform(array.field(found[c.name]), c, f"{path}.{c.name}", fill_missing=fill_missing)
        if c.name in found
        else pa.nulls(len(array), arrow_type(c))
        for c in column.children
    ]


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _conform_scalar(array: pa.Array, column: Column, path: str) -> pa.Array:
    target = arrow_type(column)
    if not _is_convertible(array.type, column):
        raise _mismatch(path, column.type, array.type)
    storage = plain(array)
    try:
        if column.kind is Kind.UUID and pa.types.is_fixed_size_binary(storage.type):
            return pa.ExtensionArray.from_storage(target, storage.cast(pa.binary(16)))
        if column.kind in (Kind.UUID, Kind.TIMETZ) or (column.type == "json" and array.type != pa.json_()):
            return from_text(storage.cast(pa.string()), column)
        if isinstance(target, pa.ExtensionType):
            return pa.ExtensionArray.from_storage(target, storage.cast(target.storage_type))
        if column.type == "float32" and pa.types.is_float64(storage.type):
            return _narrowed(storage)
        return storage.cast(target, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, CorruptCatalog) as error:
        raise SchemaMismatch(
            f"column '{path}' is {column.type}, and the data ({array.type}) has a value that does not fit: {error}",
            column=path,
        ) from error


def _narrowed(array: pa.Array) -> pa.Array:
    """Return doubles as floats where each is one exactly; Arrow's own cast rounds without a word."""
    floats = array.cast(pa.float32())
    kept = pc.or_(pc.equal(floats.cast(pa.float64()), array), pc.is_nan(array))
    if not pc.all(kept, min_count=0).as_py():
        value = array.filter(pc.invert(kept))[0]
        raise pa.ArrowInvalid(f"{value} would be rounded; cast it first")
    return floats


def _is_convertible(type_: pa.DataType, column: Column) -> bool:
    """Tell whether the kinds agree; whether each value fits is checked by the cast."""
    storage = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
    is_kind = _ARROW_KINDS.get(column.kind)
    if is_kind is None:
        raise UnsupportedType(
            f"values of type '{column.type}' cannot be written; DuckDB can write them", type=column.type
        )
    return bool(is_kind(storage))


def _is_text(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t))


def _is_bytes(t: pa.DataType) -> bool:
    kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(is_kind(t) for is_kind in kinds)


def _is_whole(t: pa.DataType) -> bool:
    return bool(pa.types.is_integer(t) or (pa.types.is_decimal(t) and t.scale == 0))


def _is_zoneless(t: pa.DataType) -> bool:
    return bool((pa.types.is_timestamp(t) and t.tz is None) or pa.types.is_date(t))


# Which Arrow types are of the same kind.
_ARROW_KINDS: Mapping[Kind, Callable[[pa.DataType], bool]] = {
    Kind.BOOLEAN: pa.types.is_boolean,
    Kind.INTEGER: _is_whole,
    Kind.DECIMAL: lambda t: pa.types.is_integer(t) or pa.types.is_decimal(t),
    Kind.FLOAT: lambda t: pa.types.is_integer(t) or pa.types.is_floating(t),
    Kind.TIMESTAMPTZ: lambda t: pa.types.is_timestamp(t) and t.tz is not None,
    Kind.TIMESTAMP: _is_zoneless,
    Kind.TIME: pa.types.is_time,
    Kind.DATE: pa.types.is_date,
    Kind.INTERVAL: pa.types.is_interval,
    **dict.fromkeys((Kind.TEXT, Kind.TIMETZ), _is_text),
    Kind.UUID: lambda t: _is_text(t) or (pa.types.is_fixed_size_binary(t) and t.byte_width == 16),
    **dict.fromkeys((Kind.BLOB, Kind.GEOMETRY), _is_bytes),
}


def _mismatch(path: str, wanted: str, found: pa.DataType) -> SchemaMismatch:
    return SchemaMismatch(f"column '{path}' is {wanted}, but the data has {found}; cast it first", column=path)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
