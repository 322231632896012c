"""Values of Debezium that JSON alone does not tell: decimals as bytes, times as numbers. Pure; runs on executors.

What such a value means is in the schema that comes beside its envelope. By that it is written anew, as text that the
column's type reads: digits, or a date or time of ISO 8601. What is of another type stays, and is refused with it.
"""

from __future__ import annotations

import binascii
import json
import re
import secrets
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

Schema: TypeAlias = Mapping[str, Any]  # Any: JSON, of a field as Kafka Connect describes it

_CONNECT, _TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
DECIMAL, VARIABLE_DECIMAL = f"{_CONNECT}Decimal", "io.debezium.data.VariableScaleDecimal"
# Texts that a record has whose values may need this.
NAMES = (_CONNECT, _TIME, VARIABLE_DECIMAL)
_DAYS = (f"{_TIME}Date", f"{_CONNECT}Date")
_MICRO, _MILLI = Decimal(1), Decimal(1000)  # microseconds
_NANO = Decimal("0.001")
_MOMENTS = {
    f"{_TIME}Timestamp": _MILLI,
    f"{_CONNECT}Timestamp": _MILLI,
    f"{_TIME}MicroTimestamp": _MICRO,
    f"{_TIME}NanoTimestamp": _NANO,
}
_TIMES = {
    f"{_TIME}Time": _MILLI,
    f"{_CONNECT}Time": _MILLI,
    f"{_TIME}MicroTime": _MICRO,
    f"{_TIME}NanoTime": _NANO,
}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 # the database tells no zone
_TEXTS = (T.StringType, T.CharType, T.VarcharType)
_FLOATS = (T.FloatType, T.DoubleType)
_TOLD = (*_TEXTS, *_FLOATS, T.DecimalType, T.DateType, T.TimeType, T.TimestampType, T.TimestampNTZType)
_DAY = timedelta(days=1)
_MAX_CLOCK = timedelta(hours=839)  # MySQL's times end at 838:59:59, before and after zero; PostgreSQL's at 24:00:00
_MAX_SCALE = 16_383  # of PostgreSQL's numeric, the largest; the text of a decimal has as many digits
_SHAPES: dict[str, tuple[type, str]] = {
    "name": (str, "text"),
    "parameters": (dict, "object"),
    "items": (dict, "object"),
}


class NoSuchValueError(ValueError):
    """A value is not what its schema says."""


def needs_schema(type_: T.DataType) -> bool:
    """Tell whether a column may have values that only their schema explains."""
    return needs_schema(type_.elementType) if isinstance(type_, T.ArrayType) else isinstance(type_, _TOLD)


@dataclass(frozen=True, slots=True)
class ToldValues:
    """Writes the values of envelopes anew, for the columns of a row. Pickled with the task."""

    row: T.StructType

    def rewrite(self, text: str | None) -> str | None:
        """Return an envelope with texts in the place of such values; None: it has no schema, or is no JSON.

        Raises NoSuchValueError, and nothing else, for one that is not what its schema says, or has no schema to read.
        """
        try:
            return self._rewrite(text)
        except RecursionError as error:
            raise NoSuchValueError("the envelope is nested too deep") from error

    def _rewrite(self, text: str | None) -> str | None:
        numbers = _Numbers()
        document = None if text is None else numbers.load(text)
        if document is None or not _is_wrapped(document):
            return None
        schemas = _by_field(document["schema"]["fields"])
        for name in ("before", "after"):
            image, fields = document["payload"].get(name), schemas.get(name, {}).get("fields")
            if isinstance(image, dict) and isinstance(fields, list):
                self._tell(image, _by_field(fields), numbers)
        return numbers.dump({"payload": document["payload"]})

    def _tell(self, image: dict[str, Any], schemas: Mapping[str, Schema], numbers: _Numbers) -> None:  # Any: JSON
        for column in self.row.fields:
            if column.name in image and column.name in schemas and needs_schema(column.dataType):
                try:
                    image[column.name] = _told(image[column.name], schemas[column.name], column.dataType, numbers)
                except NoSuchValueError as error:
                    raise NoSuchValueError(f"field '{column.name}' {error}") from error


@dataclass(slots=True)
class _Numbers:
    """Numbers with a fraction stand as texts of their own while JSON is read and written: no digit of them is lost."""

    nonce: str = field(default_factory=lambda: f"\0{secrets.token_hex(8)}:")

    def load(self, text: str) -> Any:  # Any: JSON
        """Return what a text holds, None where it is no JSON, or has a key twice: who parses it strictly says why."""
        try:
            return json.loads(text, parse_float=self.keep, object_pairs_hook=_once)
        except ValueError:
            return None

    def keep(self, digits: str) -> str:
        return f"{self.nonce}{digits}"

    def dump(self, value: Any) -> str:  # Any: JSON
        """Return the JSON of a value that was loaded."""
        return re.sub(f'"{re.escape(json.dumps(self.nonce)[1:-1])}([^"]*)"', r"\1", json.dumps(value))

    def shown(self, value: Any) -> str:  # Any: JSON
        """Return how a message tells a value."""
        return self.dump(value)[:60]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:  # Any: JSON
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def _is_wrapped(document: Any) -> bool:  # Any: JSON
    if not isinstance(document, dict) or not isinstance(document.get("payload"), dict):
        return False
    schema = document.get("schema")
    return isinstance(schema, dict) and isinstance(schema.get("fields"), list)


def _by_field(schemas: list[Any]) -> dict[str, Schema]:  # Any: JSON
    return {one["field"]: one for one in schemas if isinstance(one, dict) and isinstance(one.get("field"), str)}


def _told(value: Any, schema: Schema, type_: T.DataType, numbers: _Numbers) -> Any:  # Any: JSON
    """Return a value as its column's type reads it."""
    if value is None:
        return None
    _check_shape(schema)
    if isinstance(type_, T.ArrayType):
        item = schema.get("items")
        is_list = isinstance(value, list) and isinstance(item, dict)
        return [_told(one, item, type_.elementType, numbers) for one in value] if is_list else value  # type: ignore[arg-type] # it is an object
    if isinstance(type_, (T.DecimalType, *_TEXTS, *_FLOATS)):
        digits = _digits(value, schema, type_, numbers)
        if digits is not None:
            return numbers.keep(digits) if isinstance(type_, _FLOATS) else digits
    return _time(value, schema.get("name"), type_, numbers)


def _check_shape(schema: Schema) -> None:
    """Refuse a schema that cannot be read: bytes that it may explain would be taken for the text they look like."""
    for part, (kind, word) in _SHAPES.items():
        if schema.get(part) is not None and not isinstance(schema[part], kind):
            raise NoSuchValueError(f"has a schema in its envelope whose '{part}' is no {word}")


def _digits(value: Any, schema: Schema, type_: T.DataType, numbers: _Numbers) -> str | None:  # Any: JSON
    """Return all digits of a decimal that comes as bytes; None: it is none."""
    match schema.get("name"):
        case str(name) if name == DECIMAL:
            return _unscaled(value, (schema.get("parameters") or {}).get("scale"), numbers)
        case str(name) if name == VARIABLE_DECIMAL:
            parts = value if isinstance(value, dict) else {}
            return _unscaled(parts.get("value"), parts.get("scale"), numbers)
    if schema.get("type") == "bytes" and isinstance(type_, T.DecimalType):
        raise NoSuchValueError("is bytes in the schema of its envelope, and no decimal")
    return None


def _unscaled(value: Any, scale: Any, numbers: _Numbers) -> str:  # Any: JSON
    places = _places(scale, numbers)
    try:
        unscaled = int.from_bytes(b64decode(value, validate=True), "big", signed=True)
        digits = tuple(map(int, str(abs(unscaled))))
        return f"{Decimal((int(unscaled < 0), digits, -places)):f}"
    except (binascii.Error, TypeError, ValueError) as error:
        told = numbers.shown(value)
        raise NoSuchValueError(
            f"is a decimal of scale {places} in the schema of its envelope, and not {told}"
        ) from error


def _places(scale: Any, numbers: _Numbers) -> int:  # Any: JSON
    try:
        found = int(scale) if isinstance(scale, int | str) and not isinstance(scale, bool) else None
    except ValueError:
        found = None
    if found is None or abs(found) > _MAX_SCALE:
        raise NoSuchValueError(
            f"is a decimal of scale {numbers.shown(scale)} in its envelope, and no scale but a whole number from "
            f"-{_MAX_SCALE} to {_MAX_SCALE} is known"
        )
    return found


def _time(value: Any, name: Any, type_: T.DataType, numbers: _Numbers) -> Any:  # Any: JSON
    """Return the text of a time, where it is one of the column's type; anything else stays.

    Raises NoSuchValueError for one that no text can tell, such as `infinity`, or that the type does not hold.
    """
    if name == f"{_TIME}IsoDate" and isinstance(value, str):
        return value.removesuffix("Z")
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    try:
        return _time_text(value, name, type_) or value
    except (OverflowError, ValueError) as error:
        why = str(error) if isinstance(error, NoSuchValueError) else f"{numbers.shown(value)} is none that we know"
        raise NoSuchValueError(f"is a {name} in the schema of its envelope, and {why}") from error


def _time_text(value: int, name: Any, type_: T.DataType) -> str | None:  # Any: JSON
    is_text = isinstance(type_, _TEXTS)
    if name in _DAYS and (is_text or isinstance(type_, T.DateType)):
        return (_EPOCH + timedelta(days=value)).date().isoformat()
    if name in _MOMENTS and (is_text or isinstance(type_, (T.TimestampType, T.TimestampNTZType))):
        zone = "Z" if isinstance(type_, T.TimestampType) else ""
        return (_EPOCH + _exactly(value * _MOMENTS[name])).isoformat() + zone
    if name in _TIMES and (is_text or isinstance(type_, T.TimeType)):
        return _clock_text(_exactly(value * _TIMES[name]), is_text=is_text)
    return None


def _clock_text(clock: timedelta, *, is_text: bool) -> str:
    """Return a time as its database shows it: a text may be below zero, or a day and more; a time of day is not."""
    if abs(clock) >= _MAX_CLOCK:
        raise ValueError("no database has such a time")
    seconds, fraction = divmod(abs(clock), timedelta(seconds=1))
    sign, micros = "-" if clock < timedelta(0) else "", f".{fraction.microseconds:06}" if fraction else ""
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{micros}"
    if not is_text and not timedelta(0) <= clock < _DAY:
        raise NoSuchValueError(f"{text} is no time of day: a string column holds it")
    return text


def _exactly(microseconds: Decimal) -> timedelta:
    if microseconds != int(microseconds):
        raise ValueError("no type holds nanoseconds")
    return timedelta(microseconds=int(microseconds))
