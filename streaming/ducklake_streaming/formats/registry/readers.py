"""Which reader a registered schema needs. Runs on driver and executors; a reader is made once in each process."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.registry.avro.reader import AvroReader
from ducklake_streaming.formats.registry.client import RegisteredSchema
from ducklake_streaming.formats.registry.errors import UnusableSchema
from ducklake_streaming.formats.registry.values import Decoded

KINDS = {"avro": "AVRO", "debezium": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}  # by an input's format


class Reader(Protocol):
    """Reads the values of records that were written with one schema."""

    @property
    def columns(self) -> T.StructType:
        """The columns that hold its values."""

    def read(self, records: pa.BinaryArray) -> Decoded:
        """Return the values of whole records, headers included; none is null."""


@lru_cache(maxsize=1000)
def reader_of(schema: RegisteredSchema, record_format: str, message: str | None) -> Reader:
    """Return a reader. Raises UnusableSchema."""
    if schema.kind != KINDS[record_format]:
        raise UnusableSchema(f"it is of type {schema.kind}, but the input's format is {record_format}")
    match schema.kind:
        case "AVRO":
            return AvroReader(schema, of_connect=record_format == "debezium")
        case "PROTOBUF":
            # Its runtime and its compiler are installed by those who need them.
            from ducklake_streaming.formats.registry.protobuf.reader import ProtobufReader  # noqa: PLC0415

            return ProtobufReader(schema, message)
        case _:
            from ducklake_streaming.formats.registry.json_schema.reader import JsonReader  # noqa: PLC0415

            return JsonReader(schema)
