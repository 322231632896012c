"""Records as they are: key and value as bytes, and where they were. Runs on the driver; Spark does the work."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.decoder import DECODED, ERROR, STALE

RAW_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")


class RawDecoder:
    """Finds no record wrong, a tombstone neither: its value is null."""

    def decode(self, records: DataFrame) -> DataFrame:
        return records.withColumns(
            {DECODED: F.struct(*RAW_COLUMNS), ERROR: F.lit(None).cast("string"), STALE: F.lit(False)}  # noqa: FBT003 # Spark's signature
        )

    def refresh(self) -> None:
        """Do nothing: there is no schema."""
