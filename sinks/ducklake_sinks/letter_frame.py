"""Dead letters of records, as a frame that Spark computes. Runs on the driver."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention

from ducklake_sinks.dead_letters import RECORD_FIELDS, BatchInfo


def letter_frame(records: DataFrame, batch: BatchInfo) -> DataFrame:
    """Return records with their `reason` as rows of the dead-letter table, in its order."""
    known = {
        "stream": F.lit(batch.stream).cast("string"),
        "batch_id": F.lit(batch.batch_id).cast("bigint"),
        "table_name": F.lit(None).cast("string"),
        "reason": F.col("reason"),
        "row": F.lit(None).cast("string"),
        "quarantined_at": F.lit(batch.at),
        **{name: F.col(name) for name, _ in RECORD_FIELDS},
        "replayed_at": F.lit(None).cast("timestamp"),
    }
    return records.select(_named(known))


def _named(columns: dict[str, Column]) -> list[Column]:
    return [column.alias(name) for name, column in columns.items()]
