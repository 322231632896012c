"""Records whose values are JSON objects of a schema. Runs on the driver; Spark parses."""

from __future__ import annotations

from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.decoder import DECODED, ERROR, STALE
from ducklake_streaming.formats.strict_json import PARSED, TEXT, StrictJson


class JsonDecoder:
    """Decodes by a schema. A record is decoded whole, or it has an error: see `StrictJson`."""

    def __init__(self, schema: T.StructType) -> None:
        self.schema = schema

    @cached_property
    def _json(self) -> StrictJson:
        return StrictJson(self.schema)

    def decode(self, records: DataFrame) -> DataFrame:
        strict = self._json
        texts = records.selectExpr("*", f"CAST(value AS STRING) AS {TEXT}")
        parsed = texts.selectExpr("*", f"{strict.parse(TEXT)} AS {PARSED}")
        added = f"{strict.value(PARSED)} AS {DECODED}", f"{strict.error(PARSED, TEXT)} AS {ERROR}", f"false AS {STALE}"
        return parsed.selectExpr("*", *added).drop(TEXT, PARSED)

    def refresh(self) -> None:
        """Do nothing: the schema is given."""
