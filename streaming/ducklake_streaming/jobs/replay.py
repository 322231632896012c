"""Feeds dead letters through the pipeline of a job again, each exactly once. Runs on the driver; Spark does the work.

Rows go in and letters are marked in one snapshot. So a crash at any time loses and doubles nothing: what was not marked
was not written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Lake
from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.errors import InvalidInput
from ducklake_core.observe import LOG_RECORDER, Recorder
from ducklake_sinks import DuckLakeSink
from ducklake_sinks.modes.replay import ReplayMode
from ducklake_streaming.formats.choose import make_decoder
from ducklake_streaming.jobs.batch_writer import MAX_REFRESHES, BatchWriter
from ducklake_streaming.jobs.letter_filter import LETTER_ID, LetterFilter
from ducklake_streaming.jobs.settings import Job, KafkaInput

LETTERS_AT_ONCE = 1_000  # of one snapshot; they come to the driver
_RECORD_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """How many letters went through, and how many have failed again."""

    replayed: int
    failed: int


class LetterReplay:
    """Replays the letters of one pipeline, some at a time."""

    def __init__(self, job: Job, name: str, recorder: Recorder = LOG_RECORDER, clock: Clock = SYSTEM_CLOCK) -> None:
        pipeline = job.pipeline[name]
        if not isinstance(pipeline.input, KafkaInput):
            raise InvalidInput(f"pipeline '{name}' reads no Kafka: its dead letters have no records to feed in again")
        arguments = {**job.sink_arguments(name), "on_bad_row": "quarantine", "flush": None}
        self._sink = DuckLakeSink(**arguments, recorder=recorder)
        self._writer = BatchWriter(name, pipeline, self._sink, make_decoder(pipeline.input), recorder)
        self._stream = pipeline.stream or name
        self._started_at = clock.now()

    @property
    def table(self) -> str:
        """The table of the pipeline's letters."""
        return self._sink.options.dead_letters

    def find(self, lake: Lake, which: LetterFilter) -> pa.Table:
        """Return the letters that are to be fed in: of this pipeline, with a record, and not yet in."""
        mine = replace(which, stream=self._stream, before=self._started_at, waiting_only=True)
        return mine.read(lake, self.table)

    def run(self, lake: Lake, which: LetterFilter, make_spark: Callable[[], SparkSession]) -> ReplayResult:
        """Feed the letters in, so many in each snapshot. Raises CommitConflict when another feeds in the same."""
        letters = self.find(lake, which)
        failed = 0
        for start in range(0, letters.num_rows, LETTERS_AT_ONCE):
            failed += self.feed(letters.slice(start, LETTERS_AT_ONCE), make_spark())
        return ReplayResult(letters.num_rows - failed, failed)

    def feed(self, letters: pa.Table, spark: SparkSession) -> int:
        """Feed some letters in, in one snapshot; return how many have failed again."""
        records, ids = record_frame(spark, letters), letters.column(LETTER_ID).to_pylist()
        for _ in range(1 + MAX_REFRESHES):
            with self._sink.replay(ids, letters.drop_columns([LETTER_ID]), spark) as tx:
                if self._writer.write(tx, records, are_few=True):
                    tx.commit()
                    assert isinstance(tx.mode, ReplayMode)  # noqa: S101 # as `replay` makes it
                    return tx.mode.failed
                tx.discard()
            self._writer.learn()
        raise InvalidInput("the decoder did not learn the schemas of these records")

    def close(self) -> None:
        self._sink.close()


def record_frame(spark: SparkSession, letters: pa.Table) -> DataFrame:
    """Return the records of letters, as Spark's Kafka source gave them."""
    frame = spark.createDataFrame(letters.select(_RECORD_COLUMNS))
    headers = "from_json(headers, 'array<struct<key: string, value: binary>>') AS headers"
    plain = [f"`{name}`" for name in _RECORD_COLUMNS if name != "headers"]
    return frame.selectExpr(*plain, "0 AS timestampType", headers)
