"""What decodes record batches of values on executors, each record by the schema of its writer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.registry.access import RegistryAccess
from ducklake_streaming.formats.registry.client import RegisteredSchema, client_of
from ducklake_streaming.formats.registry.columns import arrow_type, covers, struct_of
from ducklake_streaming.formats.registry.errors import NoSuchSchema, UnusableSchema
from ducklake_streaming.formats.registry.readers import Reader, reader_of
from ducklake_streaming.formats.registry.values import Reasons, Rows, fit, put_together
from ducklake_streaming.formats.registry.wire import read_schema_ids

VALUES, REASON, IS_STALE = "values", "reason", "is_stale"


@dataclass(frozen=True, slots=True)
class DecodeTask:
    """All that an executor needs; pickled with the task, with the registry's password: it is shown nowhere."""

    access: RegistryAccess
    record_format: str
    message: str | None
    columns: T.StructType
    known: Mapping[int, RegisteredSchema] = field(repr=False)
    refused: Mapping[int, str]  # why the driver does not take records of a schema id

    @property
    def result_type(self) -> T.StructType:
        return struct_of({VALUES: self.columns, REASON: T.StringType(), IS_STALE: T.BooleanType()})

    def decode(self, values: pa.Array) -> pa.StructArray:
        """Return for each value what it holds, or why it cannot be read, or that its schema must be learned first."""
        records = values.cast(pa.binary())
        found = _Found(np.zeros(len(records), np.bool_))
        for schema_id, rows in read_schema_ids(records, found.reasons).items():
            self._decode_rows(records, schema_id, rows, found)
        kind = arrow_type(self.result_type)
        decoded = put_together(found.parts, len(records), kind.field(VALUES).type)
        reasons = pa.array([found.reasons.by_row.get(row) for row in range(len(records))], pa.string())
        return pa.StructArray.from_arrays([decoded, reasons, pa.array(found.is_stale)], fields=list(kind))

    def _decode_rows(self, records: pa.BinaryArray, schema_id: int, rows: Rows, found: _Found) -> None:
        if schema_id in self.refused:
            found.reasons.add_all(rows, self.refused[schema_id])
            return
        try:
            reader = self._reader(schema_id)
        except NoSuchSchema as error:
            found.reasons.add_all(rows, str(error))
            return
        except UnusableSchema:
            reader = None
        if reader is None or not covers(self.columns, reader.columns):
            found.is_stale[rows] = True  # the driver learns it, or says what is wrong with it
            return
        found.add(rows, reader, records, arrow_type(self.columns))

    def _reader(self, schema_id: int) -> Reader:
        schema = self.known.get(schema_id) or client_of(self.access).schema(schema_id)
        return reader_of(schema, self.record_format, self.message)


@dataclass(slots=True)
class _Found:
    is_stale: np.ndarray[tuple[int], np.dtype[np.bool_]]
    reasons: Reasons = field(default_factory=Reasons)
    parts: list[tuple[Rows, pa.Array]] = field(default_factory=list)

    def add(self, rows: Rows, reader: Reader, records: pa.BinaryArray, kind: pa.DataType) -> None:
        """Read the records of one schema."""
        some = records if len(rows) == len(records) else records.take(pa.array(rows))
        decoded = reader.read(some)
        for row, reason in decoded.reasons.by_row.items():
            self.reasons.add(int(rows[row]), reason)
        self.parts.append((rows, fit(decoded.values, kind)))
