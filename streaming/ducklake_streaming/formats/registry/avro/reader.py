"""The values of records that were written with one Avro schema. Runs on executors; the driver asks for its columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ducklake_streaming.formats.registry.avro.logical import with_logical_types
from ducklake_streaming.formats.registry.avro.rows import AvroRows
from ducklake_streaming.formats.registry.avro.schema import columns_of, parse_avro
from ducklake_streaming.formats.registry.avro.vectors import is_vectorized, read_vectors
from ducklake_streaming.formats.registry.client import RegisteredSchema
from ducklake_streaming.formats.registry.values import Decoded, Reasons, put_together

NO_AVRO = "the value does not fit its Avro schema: a number is too long, or a boolean is neither 0 nor 1"


class AvroReader:
    """Reads what one schema has written."""

    def __init__(self, schema: RegisteredSchema, *, of_connect: bool = False) -> None:
        self._schema = parse_avro(schema.text, schema.references, of_connect=of_connect)
        self._rows = AvroRows(self._schema)
        self._is_vectorized = is_vectorized(self._schema)
        self.columns = columns_of(self._schema)

    def read(self, records: pa.BinaryArray) -> Decoded:
        reasons = Reasons()
        plain = self._read_plain(records, reasons)
        return Decoded(with_logical_types(plain, self._schema, np.arange(len(records)), reasons), reasons)

    def _read_plain(self, records: pa.BinaryArray, reasons: Reasons) -> pa.StructArray:
        if not self._is_vectorized:
            return self._rows.read(records, reasons)
        values, is_right = read_vectors(records, self._schema)
        if is_right.all():
            return values
        right, odd = np.flatnonzero(is_right), np.flatnonzero(~is_right)
        of_odd = Reasons()
        others = self._rows.read(records.take(pa.array(odd)), of_odd)
        for row, place in enumerate(odd.tolist()):
            reasons.add(place, of_odd.by_row.get(row, NO_AVRO))
        parts = [(right, values.take(pa.array(right))), (odd, others)]
        return put_together(parts, len(records), values.type)
