"""Dead letters: what is kept of a row or a record that cannot be stored. Pure; runs on driver and executors."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.errors import SchemaMismatch
from ducklake_core.model import Column
from ducklake_core.spec.names import fold

Explain: TypeAlias = Callable[[bytes | None, str], str]  # a reason at length, of a record's value and its short reason

# The record that a row was made from, as Kafka has it; headers are JSON.
RECORD_FIELDS = (
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", "UTC")),
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("headers", pa.string()),
)
RECORD_COLUMN = "__ducklake_record"  # of a frame: the record that each row was made from; the last, and never stored
OPTIONAL_FIELDS = (*RECORD_FIELDS, ("replayed_at", pa.timestamp("us", "UTC")))  # a table of before lacks them
DEAD_LETTER_SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("batch_id", pa.int64()),
        ("table_name", pa.string()),
        ("reason", pa.string()),
        ("row", pa.string()),
        ("quarantined_at", pa.timestamp("us", "UTC")),
        *OPTIONAL_FIELDS,
    ]
)


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """What every dead letter of one batch says. `batch_id` None: of rows without a number."""

    stream: str | None
    batch_id: int | None
    at: datetime


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row as JSON has it, and why it cannot be stored. `record`: what it was made from, where that is known."""

    row: dict[str, Any]  # Any: values of a row
    reason: str
    record: pa.StructScalar | None = None


def dead_letters(batch: BatchInfo, table_name: str | None, bad: Sequence[BadRow]) -> pa.Table:
    """Return the rows of the dead-letter table for some bad rows."""
    rows = [
        {
            "stream": batch.stream,
            "batch_id": batch.batch_id,
            "table_name": table_name,
            "reason": one.reason,
            "row": json.dumps(one.row, allow_nan=False, ensure_ascii=False),
            "quarantined_at": batch.at,
        }
        for one in bad
    ]
    letters = pa.Table.from_pylist(rows, DEAD_LETTER_SCHEMA)
    known = [one.record for one in bad if one.record is not None]
    if not known:
        return letters
    records = pa.array([one.record for one in bad], known[0].type)
    for name, type_ in RECORD_FIELDS:
        column = letters.schema.get_field_index(name)
        values = pc.struct_field(records, name).cast(type_)
        letters = letters.set_column(column, letters.field(column), values)
    return letters


def explained(letters: pa.Table, explain: Explain) -> pa.Table:
    """Return letters of records with the reason of each at length."""
    values, reasons = (letters.column(name).to_pylist() for name in ("value", "reason"))
    texts = list(map(explain, values, reasons))
    place = letters.schema.get_field_index("reason")
    return letters.set_column(place, letters.field(place), pa.array(texts, letters.field(place).type))


def fitting_letters(letters: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """Return letters without the columns that a table of before lacks: it gets those when a record is to be kept."""
    known = {fold(column.name) for column in columns}
    return letters.drop_columns([name for name, _ in OPTIONAL_FIELDS if fold(name) not in known])


def bad_row_error(bad: BadRow) -> SchemaMismatch:
    """Return the error for a bad row that nothing is to be done about."""
    return bad_record_error(bad.reason, None if bad.record is None else bad.record.as_py())


def bad_record_error(reason: str, record: dict[str, Any] | None) -> SchemaMismatch:
    """Return the error for a record, or a row of it, that nothing is to be done about; it says which one that is."""
    place = ("topic", "partition", "offset")
    facts = {} if record is None else {name: record[name] for name in place}
    shown = "topic '{topic}', partition {partition}, offset {offset}: ".format(**facts) if facts else ""
    told = f"{shown}{reason}; on_bad_row='quarantine' keeps such rows in a dead-letter table"
    return SchemaMismatch(told, **facts)
