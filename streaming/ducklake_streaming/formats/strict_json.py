"""One JSON text, strictly: an object of a schema and nothing after it, or an error. SQL texts, made on the driver.

Spark's `from_json` alone reads what it can. It takes the first of several values, replaces bytes that are no UTF-8,
reads an escaped half of a surrogate pair as `?`, and gives null for an empty text. Here the text is parsed once, as the
first of two elements of an array, of which the second is ours and has a name that no text can know: so nothing may
follow the first.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.strict_types import (
    converted,
    field_of,
    literal,
    parsed_type,
    quoted,
    type_ddl,
    variable_names,
    wrong_field,
)

TEXT = "CAST(value AS STRING)"
PARSED = "_parsed"
NO_VALUE = "a tombstone: the record has no value"
NO_UTF8 = "the value is no UTF-8"
LONE_SURROGATE = "the value has an escaped half of a surrogate pair, which is no character"
NO_JSON = "the value is no JSON object of the schema"
_OPTIONS = {"mode": "PERMISSIVE", "allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_SURROGATE_STARTS = r"\ud", r"\uD"
_PAIR = r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"


@dataclass(frozen=True, slots=True)
class StrictJson:
    """The parser of one schema. `nonce` is a name that occurs in no text."""

    schema: T.StructType
    nonce: str = field(default_factory=lambda: f"n{secrets.token_hex(8)}")

    def parse(self, text: str) -> str:
        """Return the SQL of a text, parsed: a struct that `error` and `value` understand."""
        head, tail = literal(f'{{"{self.nonce}":['), literal(f',{{"{self.nonce}":true}}]}}')
        options = {**_OPTIONS, "columnNameOfCorruptRecord": self._corrupt}
        told = ", ".join(literal(one) for pair in options.items() for one in pair)
        return f"from_json(concat({head}, {text}, {tail}), {literal(self._parsed_ddl())}, map({told}))"

    def value(self, parsed: str) -> str:
        """Return the SQL of the value, a struct of the schema; it means something only where there is no error."""
        names, payload = variable_names(), self._payload(parsed)
        fields = (
            f"{literal(f.name)}, {converted(field_of(payload, f.name), f.dataType, names)}" for f in self.schema.fields
        )
        return f"named_struct({', '.join(fields)})"

    def error(self, parsed: str, text: str) -> str:
        """Return the SQL of what is wrong with a text, null if nothing is."""
        cases = "".join(f" WHEN {condition} THEN {literal(why)}" for condition, why in self._errors(parsed, text))
        return f"CASE{cases} END"

    def _errors(self, parsed: str, text: str) -> Iterator[tuple[str, str]]:
        yield f"{text} IS NULL", NO_VALUE
        yield f"NOT is_valid_utf8({text})", NO_UTF8
        has_escape = " OR ".join(f"contains({text}, {literal(start)})" for start in _SURROGATE_STARTS)
        rest = f"regexp_replace({text}, {literal(_PAIR)}, ' ')"
        yield f"({has_escape}) AND {rest} RLIKE {literal(_HALF)}", LONE_SURROGATE
        yield f"NOT coalesce({self._is_whole(parsed)}, false)", NO_JSON
        names, payload = variable_names(), self._payload(parsed)
        for one in self.schema.fields:
            conditions = list(wrong_field(field_of(payload, one.name), one, names))
            if conditions:
                yield " OR ".join(conditions), f"field '{one.name}' is no {shown_type(one)}"

    def _is_whole(self, parsed: str) -> str:
        items = field_of(parsed, self.nonce)
        return (
            f"{field_of(parsed, self._corrupt)} IS NULL AND size({items}) = 2 AND {items}[0] IS NOT NULL "
            f"AND {items}[1].{quoted(self.nonce)}"
        )

    def _payload(self, parsed: str) -> str:
        return f"{field_of(parsed, self.nonce)}[0]"

    @property
    def _corrupt(self) -> str:
        return f"{self.nonce}_corrupt"

    def _parsed_ddl(self) -> str:
        payload = parsed_type(self.schema)
        assert isinstance(payload, T.StructType)  # noqa: S101 # as its schema is
        item = T.StructType([*payload.fields, T.StructField(self.nonce, T.BooleanType())])
        return f"{quoted(self.nonce)} {type_ddl(T.ArrayType(item))}, {quoted(self._corrupt)} string"


def shown_type(one: T.StructField) -> str:
    return one.dataType.simpleString() + ("" if one.nullable else " NOT NULL")
