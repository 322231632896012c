"""Records of Debezium as JSON: the envelope's parts become columns. Runs on the driver; Spark parses.

The envelope comes alone, or as the `payload` beside its own `schema`, as the connector's converter is set. A tombstone,
which Debezium sends after a delete, says nothing new: it is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.decoder import DECODED, ERROR, STALE
from ducklake_streaming.formats.json_records import explain_json
from ducklake_streaming.formats.strict_json import PARSED, TEXT, StrictJson

NO_OP = "the value is no envelope of Debezium: it has no op"
NO_AFTER = "the envelope has no after, though its op is "
_WITH_ROW = "'c', 'r', 'u'"  # created, read by a first snapshot, updated


class DebeziumDecoder:
    """Decodes to `before`, `after`, `op`, `source` and `ts_ms`.

    `row`: the schema of the database's rows; without it they are texts of JSON. `source` is a map of texts: what it
    tells depends on the connector.
    """

    def __init__(self, row: T.StructType | None) -> None:
        image: T.DataType = T.StringType() if row is None else row
        envelope = T.StructType(
            [
                T.StructField("before", _optional(image)),
                T.StructField("after", image),
                T.StructField("op", T.StringType()),
                T.StructField("source", T.MapType(T.StringType(), T.StringType())),
                T.StructField("ts_ms", T.LongType()),
            ]
        )
        self._json = StrictJson(T.StructType([*envelope.fields, T.StructField("payload", envelope)]))
        self.schema = envelope

    def decode(self, records: DataFrame) -> DataFrame:
        strict = self._json
        parsed = records.where("value IS NOT NULL").selectExpr("*", f"{strict.parse(TEXT)} AS {PARSED}")
        both = parsed.selectExpr("*", f"{strict.value(PARSED)} AS _both", f"{strict.error(PARSED, TEXT)} AS _broken")
        bare = ", ".join(f"'{name}', _both.{name}" for name in self.schema.names)
        inner = both.selectExpr("*", f"coalesce(_both.payload, named_struct({bare})) AS {DECODED}")
        return inner.selectExpr("*", f"{envelope_error(DECODED, '_broken')} AS {ERROR}", f"false AS {STALE}")

    def explainer(self) -> Callable[[bytes | None, str], str]:
        return partial(_explain, self._json.schema)

    def refresh(self) -> None:
        """Do nothing: the schema is given."""


def envelope_error(envelope: str, broken: str) -> str:
    """Return the SQL of what is wrong with an envelope; `broken`: why it cannot be read at all, null if it can."""
    return f"""
        CASE WHEN {broken} IS NOT NULL THEN {broken}
             WHEN {envelope}.op IS NULL THEN '{NO_OP}'
             WHEN {envelope}.op IN ({_WITH_ROW}) AND {envelope}.after IS NULL
             THEN concat('{NO_AFTER}', {envelope}.op) END"""


def _optional(image: T.DataType) -> T.DataType:
    """Return the rows of before: of one that is deleted a database may tell nothing but its key."""
    if not isinstance(image, T.StructType):
        return image
    return T.StructType([T.StructField(field.name, field.dataType) for field in image.fields])


def _explain(schema: T.StructType, value: bytes | None, error: str) -> str:
    return error if error.startswith((NO_OP, NO_AFTER)) else explain_json(schema, value, error)
