"""Records whose values are JSON objects of a schema. Runs on the driver; Spark parses."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.decoder import DECODED, ERROR, STALE
from ducklake_streaming.formats.json_reasons import json_reason
from ducklake_streaming.formats.strict_json import LONE_SURROGATE, NO_UTF8, NO_VALUE, PARSED, TEXT, StrictJson


class JsonDecoder:
    """Decodes by a schema. A record is decoded whole, or it has an error: see `StrictJson`."""

    def __init__(self, schema: T.StructType) -> None:
        self.schema = schema

    @cached_property
    def _json(self) -> StrictJson:
        return StrictJson(self.schema)

    def decode(self, records: DataFrame) -> DataFrame:
        strict = self._json
        parsed = records.selectExpr("*", f"{strict.parse(TEXT)} AS {PARSED}")
        added = f"{strict.value(PARSED)} AS {DECODED}", f"{strict.error(PARSED, TEXT)} AS {ERROR}", f"false AS {STALE}"
        return parsed.selectExpr("*", *added)

    def explainer(self) -> Callable[[bytes | None, str], str]:
        return partial(explain_json, self.schema)

    def refresh(self) -> None:
        """Do nothing: the schema is given."""


def explain_json(schema: T.StructType, value: bytes | None, error: str) -> str:
    """Return why a value is no JSON object of the schema, the parser's own word where nothing else is found."""
    if value is None or error in (NO_VALUE, NO_UTF8, LONE_SURROGATE):
        return error
    return json_reason(bytes(value).decode(errors="replace"), schema) or error
