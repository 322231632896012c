"""Records of Debezium as Avro, by a schema registry: the envelope's parts become columns. Runs on the driver.

Rows have the columns that the registered schemas say, with the types of the database's values: see `parse_avro`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core.errors import InvalidInput
from ducklake_streaming.formats.debezium_records import envelope_error
from ducklake_streaming.formats.decoder import DECODED, ERROR, STALE
from ducklake_streaming.formats.registry.access import RegistryOptions
from ducklake_streaming.formats.registry.decoder import RegistryDecoder

_PARTS = ("before", "after", "op", "source", "ts_ms")


class DebeziumAvroDecoder:
    """Decodes to `before`, `after`, `op`, `source` and `ts_ms`; a tombstone is passed over."""

    def __init__(self, url: str, options: RegistryOptions, topics: Sequence[str] = ()) -> None:
        # Several topics may be several tables: then nobody asks for the columns of all of them together.
        self._make = partial(RegistryDecoder, "debezium", url, options, topics)
        if len(topics) == 1:
            self._registry  # noqa: B018 # it asks for the schema now

    @cached_property
    def _registry(self) -> RegistryDecoder:
        return self._make()

    @property
    def schema(self) -> T.StructType:
        """The envelope as far as its schemas are known. Raises InvalidInput where they are of something else."""
        known = self._registry.columns
        missing = [name for name in _PARTS if name not in known.names]
        if missing:
            raise InvalidInput(f"the registered schemas are no envelopes of Debezium: they lack '{missing[0]}'")
        return T.StructType([known[name] for name in _PARTS])

    def decode(self, records: DataFrame) -> DataFrame:
        decoded = self._registry.decode(records.where("value IS NOT NULL"))
        parts = ", ".join(f"'{name}', {DECODED}.{name}" for name in self.schema.names)
        envelope = f"if({DECODED} IS NULL, NULL, named_struct({parts}))"
        error = f"if({STALE}, {ERROR}, {envelope_error(DECODED, ERROR)})"
        others = [name for name in decoded.columns if name not in (DECODED, ERROR)]
        return decoded.selectExpr(*others, f"{envelope} AS {DECODED}", f"{error} AS {ERROR}")

    def refresh(self) -> None:
        """Learn the newest schemas, and those of the records that were decoded last."""
        self._registry.refresh()
