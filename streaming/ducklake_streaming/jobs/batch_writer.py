"""What a pipeline does with each micro-batch: decode, transform, write. Runs on the driver, in `foreachBatch`."""

from __future__ import annotations

from pyspark.sql import DataFrame

from ducklake_core.observe import LOG_RECORDER, Recorder
from ducklake_sinks import DuckLakeSink
from ducklake_streaming.formats.decoder import DECODED, ERROR, Decoder
from ducklake_streaming.jobs.settings import Pipeline

VIEW = "input"


class BatchWriter:
    """Writes the batches of one pipeline, each exactly once: `stream.writeStream.foreachBatch(writer)`.

    `decoder` None: the rows come as they are. Else they are Kafka's records, and one that cannot be decoded fails the
    batch.
    """

    def __init__(
        self,
        pipeline_name: str,
        pipeline: Pipeline,
        sink: DuckLakeSink,
        decoder: Decoder | None,
        recorder: Recorder = LOG_RECORDER,
    ) -> None:
        self.pipeline_name = pipeline_name
        self._transform = None if pipeline.transform is None else pipeline.transform.sql
        self._sink = sink
        self._decoder = decoder
        self._recorder = recorder

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one micro-batch; Spark calls this."""
        rows = batch if self._decoder is None else self._decoded(self._decoder.decode(batch))
        self._sink(self._transformed(rows), batch_id)

    def _decoded(self, records: DataFrame) -> DataFrame:
        return records.where(f"assert_true({ERROR} IS NULL, {ERROR}) IS NULL").select(f"{DECODED}.*")

    def _transformed(self, rows: DataFrame) -> DataFrame:
        if self._transform is None:
            return rows
        rows.createOrReplaceTempView(VIEW)
        return rows.sparkSession.sql(self._transform)
