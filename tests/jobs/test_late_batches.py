"""A batch that comes when its query is about to be stopped does not make the query fail."""

import threading
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from ducklake_core.observe import NO_RECORDER
from ducklake_streaming.jobs.batch_gate import BatchGate
from ducklake_streaming.jobs.supervisor import PipelineParts, Supervisor

pytestmark = pytest.mark.slow


def test_batch_after_the_gate_is_closed_waits_for_the_stop_which_is_no_failure(
    spark: SparkSession, tmp_path: Path
) -> None:
    gate, came = BatchGate(), threading.Event()
    gate.close(lambda: False)
    parts = PipelineParts("p", lambda: never, lambda _: query, gate, None, NO_RECORDER)
    supervisor = Supervisor(parts, threading.Event())

    def write(batch: DataFrame, batch_id: int) -> None:
        came.set()
        supervisor._write(batch, batch_id)  # as Spark calls it

    stream = spark.readStream.format("rate").load().writeStream.foreachBatch(write)
    query = stream.option("checkpointLocation", str(tmp_path)).start()
    came.wait()
    query.stop()

    assert query.exception() is None
    assert gate.batches == 0


def never(_: DataFrame, __: int) -> None:
    raise AssertionError("a batch was written")
