"""A query that is stopped while its sink waits for a catalog that is away ends, and does not wait on."""

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ducklake_sinks import DuckLakeSink
from tests.fixtures.waiting import PATIENCE_SECONDS, wait_until


def test_stop_ends_the_wait_for_a_catalog_that_is_away(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ducklake_core")
    caplog.set_level(logging.INFO, "ducklake_sinks")
    nobody_there = "postgresql://lake@127.0.0.1:1/lake"
    sink = DuckLakeSink(nobody_there, "t", flush=None, catalog_timeout=PATIENCE_SECONDS)
    stream = spark.readStream.format("rate").option("rowsPerSecond", 10).load().writeStream
    query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(sink).start()
    wait_until(
        lambda: any("catalog_unavailable" in message for message in caplog.messages), lambda: str(caplog.messages)
    )

    query.stop()  # returns when the batch has ended

    wait_until(lambda: any("batch_stopped" in message for message in caplog.messages), lambda: str(caplog.messages))
    assert any("the query was stopped" in message for message in caplog.messages)
    assert not any("batch_failed" in message for message in caplog.messages)
