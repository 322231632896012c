"""The values of records that were written with one JSON Schema. Runs on executors; the driver asks for its columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, NoReturn, TypeVar

import jsonschema_rs
import pyarrow as pa

from ducklake_streaming.formats.registry.client import RegisteredSchema
from ducklake_streaming.formats.registry.columns import arrow_type
from ducklake_streaming.formats.registry.errors import UnusableSchema
from ducklake_streaming.formats.registry.json_schema.shape import (
    Dictionary,
    Leaf,
    List,
    Object,
    Shape,
    columns_of,
    parse_json_schema,
)
from ducklake_streaming.formats.registry.values import Decoded, Reasons, build
from ducklake_streaming.formats.registry.wire import HEADER_BYTES

_Date = TypeVar("_Date", date, datetime)
LONE_VALUE = "value"  # the column of a schema that is no object


class JsonReader:
    """Reads what one schema has written. A field that the schema does not know is a reason: no column would have it."""

    def __init__(self, schema: RegisteredSchema) -> None:
        shape = parse_json_schema(schema.text, schema.references)
        self._is_lone = not isinstance(shape, Object)
        self._shape = shape if isinstance(shape, Object) else Object(((LONE_VALUE, shape),))
        self._validator = _validator(schema.text, schema.references)
        self.columns = columns_of(self._shape)

    def read(self, records: pa.BinaryArray) -> Decoded:
        reasons = Reasons()
        values = [self._read(record.as_py(), row, reasons) for row, record in enumerate(records)]
        return Decoded(build(values, arrow_type(self.columns), reasons), reasons)

    def _read(self, record: bytes, row: int, reasons: Reasons) -> object:
        try:
            value = json.loads(record[HEADER_BYTES:].decode(), parse_constant=_refuse_constant)
            self._validator.validate(value)
            return _value({LONE_VALUE: value} if self._is_lone else value, self._shape, ())
        except jsonschema_rs.ValidationError as error:
            reasons.add(row, f"the value does not fit its JSON Schema: {_place(error.instance_path)}{error.message}")
        except (ValueError, RecursionError) as error:
            reasons.add(row, f"the value is no JSON of its schema: {error}")
        return None


def _validator(text: str, references: Sequence[tuple[str, str]]) -> jsonschema_rs.Validator:
    try:
        known = jsonschema_rs.Registry([(name, json.loads(reference)) for name, reference in references])
        return jsonschema_rs.validator_for(json.loads(text), registry=known, retriever=_refuse_retrieval)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise UnusableSchema(f"it is no JSON Schema: {error}") from error


def _refuse_retrieval(address: str) -> NoReturn:
    """Fetch nothing from wherever a schema says: what it needs is among its references."""
    raise ValueError(f"'{address}' is not among its references")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"'{text}' is no number of JSON")


def _place(path: Sequence[str | int]) -> str:
    return f"field '{'.'.join(map(str, path))}': " if path else ""


def _value(value: Any, shape: Shape, path: tuple[str, ...]) -> Any:  # Any: JSON in, what Arrow takes out
    """Return a value as its column takes it. Raises ValueError."""
    if value is None:
        return None
    match shape:
        case Leaf():
            return _leaf(value, shape.kind, path)
        case Object():
            return _fields(value, shape, path)
        case Dictionary():
            return {name: _value(item, shape.item, (*path, name)) for name, item in value.items()}
        case List():
            return [_value(item, shape.item, path) for item in value]


def _fields(value: Any, shape: Object, path: tuple[str, ...]) -> dict[str, Any]:  # Any: see _value
    if not isinstance(value, dict):
        raise ValueError(f"{_place(path)}{json.dumps(value)} is no object")  # noqa: TRY004 # a reason, as others here
    unknown = value.keys() - {name for name, _ in shape.fields}
    if unknown:
        raise ValueError(f"{_place((*path, min(unknown)))}its schema has no such field")
    return {name: _value(value.get(name), field, (*path, name)) for name, field in shape.fields}


def _leaf(value: Any, kind: str, path: tuple[str, ...]) -> Any:  # Any: see _value
    match kind:
        case "json":
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        case "integer":
            return int(value)  # 1.0 is an integer in JSON
        case "date":
            return _parsed(date, value, path)
        case "date-time":
            return _instant(value, path)
        case _:
            return value


def _parsed(kind: type[_Date], text: str, path: tuple[str, ...]) -> _Date:
    try:
        return kind.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{_place(path)}'{text}' is no {kind.__name__}: {error}") from error


def _instant(text: str, path: tuple[str, ...]) -> datetime:
    found = _parsed(datetime, text, path)
    if found.tzinfo is None:
        raise ValueError(f"{_place(path)}'{text}' has no time zone")
    return found
