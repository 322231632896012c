"""What a JSON Schema says of values, as far as columns can hold it. Pure; runs on driver and executors.

A schema allows much more than columns can: what has no type of its own becomes JSON text, and loses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.registry.columns import check_names, struct_of
from ducklake_streaming.formats.registry.errors import UnusableSchema

_LEAVES: dict[str, type[T.DataType]] = {
    "boolean": T.BooleanType,
    "integer": T.LongType,
    "number": T.DoubleType,
    "string": T.StringType,
    "date": T.DateType,
    "date-time": T.TimestampType,
    "json": T.StringType,
}
_CHOICES = ("oneOf", "anyOf")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without parts, or any JSON as text."""

    kind: str


@dataclass(frozen=True, slots=True)
class Object:
    """Fields by name."""

    fields: tuple[tuple[str, Shape], ...]


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Values of one shape by names that no schema knows."""

    item: Shape


@dataclass(frozen=True, slots=True)
class List:
    """Values of one shape."""

    item: Shape


Shape: TypeAlias = Leaf | Object | Dictionary | List
JSON_TEXT = Leaf("json")


def parse_json_schema(text: str, references: Sequence[tuple[str, str]] = ()) -> Shape:
    """Read a schema. Raises UnusableSchema."""
    try:
        documents = {name: json.loads(reference) for name, reference in references}
        schema = json.loads(text)
    except ValueError as error:
        raise UnusableSchema(f"it is no JSON Schema: {error}") from error
    return _Walk(documents, schema).shape(schema, ())


def columns_of(shape: Object) -> T.StructType:
    """Return a column for each field. Raises UnusableSchema."""
    check_names([name for name, _ in shape.fields])
    return struct_of({name: _column_of(field) for name, field in shape.fields})


def _column_of(shape: Shape) -> T.DataType:
    match shape:
        case Leaf():
            return _LEAVES[shape.kind]()
        case Object():
            return columns_of(shape)
        case Dictionary():
            return T.MapType(T.StringType(), _column_of(shape.item))
        case List():
            return T.ArrayType(_column_of(shape.item))


@dataclass(frozen=True, slots=True)
class _Walk:
    """Goes through a document; `within` has the references that were followed to get here."""

    documents: Mapping[str, Any]  # Any: JSON
    document: Any  # Any: JSON

    def shape(self, schema: Any, within: tuple[str, ...]) -> Shape:  # Any: JSON
        if not isinstance(schema, dict):
            return JSON_TEXT  # true: anything goes
        if "$ref" in schema:
            return self._referred(schema["$ref"], within)
        if "allOf" in schema:
            return self._all(schema, within)
        for choice in _CHOICES:
            if choice in schema:
                return self._one(schema[choice], within)
        return self._typed(schema, _kind(schema), within)

    def _typed(self, schema: Any, kind: str | None, within: tuple[str, ...]) -> Shape:  # Any: JSON
        match kind:
            case "object":
                return self._object(schema, within)
            case "array":
                return List(self.shape(schema.get("items", True), within))
            case "string" if schema.get("format") in {"date", "date-time"}:
                return Leaf(schema["format"])
            case "boolean" | "integer" | "number" | "string":
                return Leaf(kind)
            case _:
                return JSON_TEXT

    def _object(self, schema: Any, within: tuple[str, ...]) -> Shape:  # Any: JSON
        properties = schema.get("properties", {})
        if properties:
            return Object(tuple((name, self.shape(field, within)) for name, field in properties.items()))
        others = schema.get("additionalProperties")
        if isinstance(others, dict) and "patternProperties" not in schema:
            return Dictionary(self.shape(others, within))
        return JSON_TEXT

    def _all(self, schema: Any, within: tuple[str, ...]) -> Shape:  # Any: JSON
        rest = {name: value for name, value in schema.items() if name != "allOf"}
        parts = [self.shape(part, within) for part in schema["allOf"]]
        if _kind(rest) is not None:
            parts.insert(0, self.shape(rest, within))
        meaning = [part for part in parts if part != JSON_TEXT] or [JSON_TEXT]
        return reduce(_both, meaning)

    def _one(self, choices: Any, within: tuple[str, ...]) -> Shape:  # Any: JSON
        shapes = {self.shape(choice, within) for choice in choices if choice != {"type": "null"}}
        return shapes.pop() if len(shapes) == 1 else JSON_TEXT

    def _referred(self, reference: str, within: tuple[str, ...]) -> Shape:
        name, _, pointer = reference.partition("#")
        if reference in within:
            raise UnusableSchema(f"'{reference}' holds itself, and no column can hold that")
        document = self.documents.get(name, self.document if self._is_own(name) else None)
        found = _follow(document, pointer)
        if found is None:
            raise UnusableSchema(f"it refers to '{reference}', which is neither in it nor among its references")
        return replace(self, document=document).shape(found, (*within, reference))

    def _is_own(self, name: str) -> bool:
        return not name or (isinstance(self.document, dict) and name == self.document.get("$id"))


def _kind(schema: Any) -> str | None:  # Any: JSON
    """Return the one type of values that are not null; None if there are several, or none is said."""
    said = schema.get("type")
    kinds = set(said if isinstance(said, list) else [said]) - {"null", None}
    if kinds == {"integer", "number"}:
        return "number"
    if len(kinds) == 1:
        return str(kinds.pop())
    if not kinds and "properties" in schema:
        return "object"
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return "string" if not kinds and values and all(isinstance(value, str) for value in values) else None


def _both(first: Shape, second: Shape) -> Shape:
    if isinstance(first, Object) and isinstance(second, Object):
        fields = dict(first.fields)
        for name, shape in second.fields:
            fields[name] = _both(fields[name], shape) if name in fields else shape
        return Object(tuple(fields.items()))
    return first if first == second else JSON_TEXT


def _follow(document: Any, pointer: str) -> Any:  # Any: JSON
    """Return what a JSON pointer points to."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list) and name.isdigit() and int(name) < len(document):
            document = document[int(name)]
        else:
            document = document.get(name) if isinstance(document, dict) else None
    return document
