"""Errors and reasons have causes from a short list: reasons are those that our sink and decoders really write."""

import json

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core import errors
from ducklake_core.errors import DuckLakeError
from ducklake_core.spec.types import build_columns
from ducklake_sinks.bad_rows import fitting_rows
from ducklake_sinks.routes import COMPUTED_ROUTE, why_no_table
from ducklake_streaming.formats.debezium_records import NO_AFTER, NO_OP
from ducklake_streaming.formats.json_reasons import json_reason
from ducklake_streaming.formats.registry.avro.reader import NO_AVRO
from ducklake_streaming.formats.registry.client import RegisteredSchema
from ducklake_streaming.formats.registry.json_schema.reader import JsonReader
from ducklake_streaming.formats.registry.values import Reasons
from ducklake_streaming.formats.registry.wire import read_schema_ids
from ducklake_streaming.formats.strict_json import LONE_SURROGATE, NO_JSON, NO_UTF8, NO_VALUE, shown_type
from ducklake_streaming.kafka.errors import BrokerUnavailable, RecordsLost
from ducklake_streaming.metrics.causes import FailureCause, LetterCause, failure_cause, letter_cause

UNREADABLE, SCHEMA, VALUE, MISSING = (
    LetterCause.UNREADABLE,
    LetterCause.SCHEMA,
    LetterCause.VALUE,
    LetterCause.MISSING,
)
ORDER = T.StructType([T.StructField("id", T.IntegerType(), nullable=False), T.StructField("at", T.DateType())])
COLUMNS = build_columns({"id": "int32", "u": "uuid"})
UUID = "00000000-0000-0000-0000-000000000001"


def json_reasons(text: str) -> str:
    return json_reason(text, ORDER) or ""


def sink_reason(**row: object) -> str:
    """Return why a table with columns `id` and `u` does not take a row."""
    data = pa.table({"id": [row.get("id", 1)], "u": [row.get("u", UUID)]})
    _, [bad] = fitting_rows(data, COLUMNS, "t", fill_missing=False, quarantines=True)
    return bad.reason


def header_reasons(*values: bytes | None) -> list[str]:
    reasons = Reasons()
    read_schema_ids(pa.array(values, pa.binary()), reasons)
    return list(reasons.by_row.values())


def schema_reason(record: object) -> str:
    """Return why a JSON Schema with a field `id` does not take a record."""
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date"}}}
    reader = JsonReader(RegisteredSchema("JSON", json.dumps(schema), ()))
    text = record if isinstance(record, bytes) else json.dumps(record).encode()
    [reason] = reader.read(pa.array([b"\0\0\0\0\1" + text], pa.binary())).reasons.by_row.values()
    return reason


REASONS: list[tuple[str, LetterCause]] = [
    (NO_VALUE, MISSING),
    (NO_UTF8, UNREADABLE),
    (LONE_SURROGATE, UNREADABLE),
    (NO_JSON, UNREADABLE),
    (json_reasons('{"id": '), UNREADABLE),
    (json_reasons("[1]"), UNREADABLE),
    (json_reasons('{"id": 1.5}'), VALUE),
    (json_reasons('{"id": 1, "at": "x, and the schema says NOT NULL"}'), VALUE),
    (json_reasons('{"id": null}'), MISSING),
    (json_reasons("{}"), MISSING),
    (f"field 'id' is no {shown_type(ORDER.fields[0])}", VALUE),
    ("the value is no line of CSV: its quotes are broken", UNREADABLE),
    ("the value has not 3 fields", UNREADABLE),
    (NO_OP, UNREADABLE),
    (f"{NO_AFTER}c", MISSING),
    *zip(header_reasons(None, b"\0", b"\1\0\0\0\0\0"), (MISSING, UNREADABLE, UNREADABLE), strict=True),
    (NO_AVRO, UNREADABLE),
    ("the Avro value ends 3 bytes before the record does: it fits another schema", UNREADABLE),
    ("value 99 has more digits than decimal(1,0)", VALUE),
    ("a value is out of range: no", VALUE),
    ("the value does not fit its Protobuf schema: no", UNREADABLE),
    ("the record is a message 'shop.A', and the input reads 'shop.B'", SCHEMA),
    ("schema id 7 cannot be taken: it has no message", SCHEMA),
    ("schema id 7 is not in the schema registry http://registry", SCHEMA),
    (schema_reason({"id": "x"}), VALUE),
    (schema_reason(b"{"), UNREADABLE),
    (sink_reason(id=2**40), VALUE),
    (sink_reason(u="no uuid"), VALUE),
    ("column 'id' of 'main.t' forbids nulls, and row 3 of the data has one", MISSING),
    ("a text that is no UTF-8 in 'a': the row shows its bytes as hexadecimal digits after 0x", VALUE),
    (why_no_table(None, COMPUTED_ROUTE, "d") or "", MISSING),
    (why_no_table(None, "kind", "d") or "", MISSING),
    (why_no_table("a.b.c", COMPUTED_ROUTE, "d") or "", VALUE),
    (why_no_table("d", "kind", "d") or "", VALUE),
    ("something else", LetterCause.OTHER),
    ("", LetterCause.OTHER),
]


@pytest.mark.parametrize(("reason", "cause"), REASONS, ids=str)
def test_reason_of_a_dead_letter_has_a_cause(reason: str, cause: LetterCause) -> None:
    assert letter_cause(reason) is cause


def every_error(kind: type[DuckLakeError] = DuckLakeError) -> list[type[DuckLakeError]]:
    below = [one for sub in kind.__subclasses__() for one in every_error(sub) if one.__module__ == errors.__name__]
    return [kind, *below]


CAUSES = {
    "catalog": "CatalogUnavailable ContentionError TransientError CatalogError NoLakeFound LakeExists DataPathMismatch "
    "UnsupportedFormatVersion CatalogForbidden CatalogLimitExceeded CorruptCatalog CatalogTableMissing "
    "CommitOutcomeUnknown",
    "storage": "UnreadableFile UnwritableFile",
    "data": "InvalidInput UntoldValue SchemaMismatch NotNullViolation UnsupportedType ObjectNotFound ObjectExists "
    "FeedError SchemaChanged RowsChanged",
    "fenced": "StreamFenced",
    "lost": "LedgerBehind SnapshotsExpired OffsetMismatch",
    "other": "DuckLakeError TerminalError CommitConflict LedgerError EpochOutOfOrder",
}


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_every_error_has_a_cause(kind: type[DuckLakeError]) -> None:
    [cause] = [cause for cause, names in CAUSES.items() if kind.__name__ in names.split()]

    assert failure_cause(kind("no")) == cause


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (RecordsLost("no"), FailureCause.LOST),
        (BrokerUnavailable("no"), FailureCause.OTHER),
        (ValueError("no"), FailureCause.OTHER),
        (RuntimeError("x\nducklake_core.errors.UnwritableFile: disk full"), FailureCause.STORAGE),
        (RuntimeError("KAFKA_DATA_LOSS"), FailureCause.LOST),
    ],
    ids=repr,
)
def test_errors_of_others_and_of_spark_have_causes(error: Exception, cause: FailureCause) -> None:
    assert failure_cause(error) is cause
