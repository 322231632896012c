"""Records whose values are one line of CSV, by RFC 4180: commas, quotes doubled within quotes. Runs on the driver.

An empty field is null, a quoted empty one is an empty text. As Spark's `from_csv` does not tell every broken line, the
line is parsed with one field more, whose text nobody can know: it comes out last only if all others are whole.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core.errors import InvalidInput
from ducklake_streaming.formats.decoder import DECODED, ERROR, STALE
from ducklake_streaming.formats.strict_json import NO_UTF8, NO_VALUE, PARSED, TEXT, shown_type
from ducklake_streaming.formats.strict_text import converted_text, has_text_form, is_wrong_text
from ducklake_streaming.formats.strict_types import field_of, literal, quoted

_LINE_TEXT = "_line"
_FIELD = r'(?:"[^"]*+(?:""[^"]*+)*+"|[^",\r\n]*+)'
_LINE = rf"\A{_FIELD}(?:,{_FIELD})*+\z"


class CsvDecoder:
    """Decodes by a schema, one field for each column. A record is decoded whole, or it has an error."""

    def __init__(self, schema: T.StructType) -> None:
        unfit = [f"{f.name} {f.dataType.simpleString()}" for f in schema.fields if not has_text_form(f.dataType)]
        if unfit:
            raise InvalidInput(f"a CSV record cannot have columns {', '.join(unfit)}: a field is a number or a text")
        self.schema = schema
        self._nonce = f"n{secrets.token_hex(8)}"

    def decode(self, records: DataFrame) -> DataFrame:
        texts = records.selectExpr("*", rf"regexp_replace({TEXT}, '\\r?\\n\\z', '') AS {_LINE_TEXT}")
        parsed = texts.selectExpr("*", f"{self._parse()} AS {PARSED}")
        cases = "".join(f" WHEN {condition} THEN {literal(why)}" for condition, why in self._errors())
        added = f"{self._value()} AS {DECODED}", f"CASE{cases} END AS {ERROR}", f"false AS {STALE}"
        return parsed.selectExpr("*", *added)

    def refresh(self) -> None:
        """Do nothing: the schema is given."""

    def _parse(self) -> str:
        options = {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": self._corrupt,
            "escape": '"',
            "emptyValue": self._nonce,
            "multiLine": "true",
        }
        told = ", ".join(literal(one) for pair in options.items() for one in pair)
        names = [*self.schema.names, self._nonce, self._corrupt]
        ddl = ", ".join(f"{quoted(name)} string" for name in names)
        return f"from_csv(concat({_LINE_TEXT}, {literal(f',{self._nonce}')}), {literal(ddl)}, map({told}))"

    def _text_of(self, name: str) -> str:
        field = field_of(PARSED, name)
        return f"if({field} = {literal(self._nonce)}, '', {field})"

    def _value(self) -> str:
        fields = (f"{literal(f.name)}, {converted_text(self._text_of(f.name), f.dataType)}" for f in self.schema.fields)
        return f"named_struct({', '.join(fields)})"

    def _errors(self) -> Iterator[tuple[str, str]]:
        yield f"{_LINE_TEXT} IS NULL", NO_VALUE
        yield f"NOT is_valid_utf8({TEXT})", NO_UTF8  # a replacement in it would make it valid
        is_plain = rf"NOT ({_LINE_TEXT} RLIKE '[\"\\r\\n]')"
        yield (
            f"NOT ({is_plain} OR {_LINE_TEXT} RLIKE {literal(_LINE)})",
            "the value is no line of CSV: its quotes are broken",
        )
        is_whole = f"{field_of(PARSED, self._corrupt)} IS NULL AND {field_of(PARSED, self._nonce)} = '{self._nonce}'"
        count = len(self.schema.fields)
        yield f"NOT coalesce({is_whole}, false)", f"the value has not {count} fields"
        for one in self.schema.fields:
            condition = is_wrong_text(self._text_of(one.name), one)
            if condition is not None:
                yield condition, f"field '{one.name}' is no {shown_type(one)}"

    @property
    def _corrupt(self) -> str:
        return f"{self._nonce}_corrupt"
