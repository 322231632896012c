"""Records of Debezium as JSON: the envelope's parts become columns. Runs on the driver; Spark parses.

The envelope comes alone, or as the `payload` beside its own `schema`, as the connector's converter is set. A tombstone,
which Debezium sends after a delete, says nothing new: it is passed over. By its schema, values are read that JSON does
not tell (`debezium_values`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention
from pyspark.sql import types as T  # noqa: N812 # likewise
from pyspark.sql.pandas.functions import arrow_udf

from ducklake_streaming.formats import debezium_values
from ducklake_streaming.formats.debezium_values import NoSuchValueError, ToldValues
from ducklake_streaming.formats.decoder import DECODED, ERROR, STALE
from ducklake_streaming.formats.json_records import explain_json
from ducklake_streaming.formats.strict_json import PARSED, TEXT, StrictJson
from ducklake_streaming.formats.strict_types import literal

NO_OP = "the value is no envelope of Debezium: it has no op"
NO_AFTER = "the envelope has no after, though its op is "
_TOLD = "_told"
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
        needs_schema = row is not None and any(debezium_values.needs_schema(field.dataType) for field in row.fields)
        self._values = ToldValues(row) if row is not None and needs_schema else None
        self.schema = envelope

    def decode(self, records: DataFrame) -> DataFrame:
        strict, told = self._json, self._told(records.where("value IS NOT NULL"))
        parsed = told.selectExpr("*", f"{strict.parse(_TOLD)} AS {PARSED}")
        both = parsed.selectExpr("*", f"{strict.value(PARSED)} AS _both", f"{strict.error(PARSED, _TOLD)} AS _broken")
        bare = ", ".join(f"'{name}', _both.{name}" for name in self.schema.names)
        inner = both.selectExpr("*", f"coalesce(_both.payload, named_struct({bare})) AS {DECODED}")
        return inner.selectExpr("*", f"{envelope_error(DECODED, '_broken')} AS {ERROR}", f"false AS {STALE}")

    def _told(self, records: DataFrame) -> DataFrame:
        """Return the records with their texts, in which values are told that only a schema explains."""
        if self._values is None:
            return records.selectExpr("*", f"{TEXT} AS {_TOLD}")
        may_need = " OR ".join(f"contains({TEXT}, {literal(name)})" for name in debezium_values.NAMES)
        asked = F.expr(f"if(is_valid_utf8({TEXT}) AND ({may_need}), {TEXT}, NULL)")  # Python reads no other text
        told = records.withColumn(_TOLD, _rewrite(self._values)(asked))
        return told.withColumn(_TOLD, F.expr(f"coalesce({_TOLD}, {TEXT})"))

    def explainer(self) -> Callable[[bytes | None, str], str]:
        return partial(_explain, self._json.schema, self._values)

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


def _rewrite(values: ToldValues) -> Callable[[Column], Column]:
    def rewrite(texts: pa.Array) -> pa.Array:
        return pa.array([_rewritten(values, text) for text in texts.to_pylist()], pa.string())

    made: Any = arrow_udf(rewrite, T.StringType())  # type: ignore[call-overload]  # Spark's stubs know none that it names itself
    # Else Spark takes it for free, and does it once more for a filter on the result.
    rewriting: Callable[[Column], Column] = made.asNondeterministic()
    return rewriting


def _rewritten(values: ToldValues, text: str | None) -> str | None:
    try:
        return values.rewrite(text)
    except NoSuchValueError:
        return ""  # which is no JSON: `_explain` says why


def _explain(schema: T.StructType, values: ToldValues | None, value: bytes | None, error: str) -> str:
    if error.startswith((NO_OP, NO_AFTER)):
        return error
    if values is not None and value is not None:
        try:
            told = values.rewrite(bytes(value).decode(errors="replace"))
        except NoSuchValueError as found:
            return str(found)
        value = value if told is None else told.encode()
    return explain_json(schema, value, error)
