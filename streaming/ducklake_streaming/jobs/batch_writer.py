"""What a pipeline does with each micro-batch: decode, transform, write. Runs on the driver, in `foreachBatch`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention
from pyspark.sql.types import StructType

from ducklake_core.errors import InvalidInput
from ducklake_core.observe import LOG_RECORDER, Recorder
from ducklake_sinks import DuckLakeSink
from ducklake_sinks.transaction import SinkTransaction
from ducklake_streaming.formats.choose import make_decoder
from ducklake_streaming.formats.debezium_avro import DebeziumAvroDecoder
from ducklake_streaming.formats.debezium_records import DebeziumDecoder
from ducklake_streaming.formats.decoder import DECODED, ERROR, STALE, Decoder, ExplainingDecoder
from ducklake_streaming.jobs.debezium_changes import unwrap_sql
from ducklake_streaming.jobs.events import ChangesRead, RecordsRead
from ducklake_streaming.jobs.input_view import record_columns, view_columns
from ducklake_streaming.jobs.record_counts import (
    CHANGE_TYPE,
    CountedChanges,
    CountedRecords,
    RecordCounts,
    count_records,
)
from ducklake_streaming.jobs.second_reads import SecondReads
from ducklake_streaming.jobs.settings import KafkaInput, Pipeline
from ducklake_streaming.jobs.topic_writers import TopicWriters
from ducklake_streaming.jobs.transform import Transform
from ducklake_streaming.kafka.letter_topic import LetterTopic

MAX_REFRESHES = 3
_IS_GOOD = f"{ERROR} IS NULL AND NOT {STALE}"


class BatchWriter:
    """Writes the batches of one pipeline, each exactly once: `stream.writeStream.foreachBatch(writer)`.

    `decoder` None: the rows come as they are. Else they are Kafka's records, decoded already or not: those that cannot
    be decoded become dead letters in the snapshot of the others, or fail the batch, as `on_bad_row` says.
    `counts_changes`: somebody wants to know how many changes of each type a feed has brought. `keys`: it writes one of
    several topics, whose rows are told apart by these.
    """

    def __init__(
        self,
        pipeline_name: str,
        pipeline: Pipeline,
        sink: DuckLakeSink,
        decoder: Decoder | None,
        recorder: Recorder = LOG_RECORDER,
        *,
        counts_changes: bool = False,
        keys: Sequence[str] | None = None,
    ) -> None:
        self.pipeline_name = pipeline_name
        self._transform = Transform(pipeline_name, _sql(pipeline), pipeline.sink.route)
        self._route = pipeline.sink.route
        self._unwraps = pipeline.applies_envelopes
        self._row_keys = pipeline.sink.keys if keys is None else keys
        self._envelope: StructType | None = None  # which the transform unwraps, where envelopes are applied
        self._skips_tombstones = isinstance(pipeline.input, KafkaInput) and pipeline.input.tombstones == "skip"
        self._letter_topic = _letter_topic(pipeline)
        self._sink = sink
        self._decoder = decoder
        self._recorder = recorder
        self._counts_changes = counts_changes
        self._second_reads = SecondReads()
        self._payload: Sequence[str] | None = None  # names of its fields, until the decoder learns others
        self._keys = keys
        of_topic = partial(_of_topic, pipeline_name, pipeline, sink, recorder)
        self._topics = TopicWriters(of_topic) if pipeline.routes_envelopes and keys is None else None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one micro-batch; Spark calls this."""
        for _ in range(1 + MAX_REFRESHES):
            with ExitStack() as kept, self._sink.transaction(batch_id, batch.sparkSession) as tx:
                is_written = tx.is_replay or self.write(tx, batch, kept)
                if not is_written:
                    tx.discard()
            if is_written:
                self._send_letters(tx)
                return
            self.learn()
        raise InvalidInput(
            f"pipeline '{self.pipeline_name}': records of batch {batch_id} have fields that the decoder did not learn "
            f"in {MAX_REFRESHES} attempts"
        )

    def write(
        self, tx: SinkTransaction, batch: DataFrame, kept: ExitStack | None = None, *, are_few: bool = False
    ) -> bool:
        """Put a batch into a transaction; False: the decoder must learn newer schemas first.

        `kept`: until it is closed, Spark may keep records that are likely to be read twice. `are_few`: the driver may
        take all of them.
        """
        if self._topics is not None:
            return self._topics.write(tx, batch, kept, are_few=are_few)
        if self._decoder is None:
            self._append_rows(tx, batch)
            return True
        records = batch.where("value IS NOT NULL") if self._skips_tombstones else batch
        decoded = records if DECODED in batch.columns else self._decoder.decode(records)
        self._follow_envelope()
        if kept is not None:
            decoded = self._second_reads.prepare(decoded, kept)
        counts = self._append(tx, decoded)
        self._second_reads.note(counts.errors)
        self._recorder.record(RecordsRead(self.pipeline_name, counts.newest))
        if counts.errors and not counts.stale:
            self._quarantine(tx, decoded, are_few=are_few or counts.are_errors_few)
        return not counts.stale

    def _follow_envelope(self) -> None:
        """Unwrap envelopes by the columns that the decoder knows by now."""
        if self._unwraps and isinstance(self._decoder, DebeziumDecoder | DebeziumAvroDecoder):
            envelope = self._decoder.schema
            if envelope != self._envelope:
                self._envelope = envelope
                is_of_topic = None if self._keys is None else True
                sql = unwrap_sql(envelope, self._row_keys)
                self._transform = Transform(self.pipeline_name, sql, self._route, routes_input=is_of_topic)

    def _append_rows(self, tx: SinkTransaction, batch: DataFrame) -> None:
        """Append rows that come as they are; those of a change feed are counted as they are read, where that can be."""
        if self._counts_changes and self._transform.is_row_wise() and CHANGE_TYPE in batch.columns:
            changes = CountedChanges(batch)
            rows = self._transform.apply(changes.frame, ["*"])
            if self._transform.is_row_wise():  # as Spark says, who was asked just now
                found = changes.counts(tx.write(rows))
                if found is not None:
                    self._recorder.record(ChangesRead(self.pipeline_name, found))
                return
        tx.write(self._transform.apply(batch, ["*"]))

    def _quarantine(self, tx: SinkTransaction, decoded: DataFrame, *, are_few: bool) -> None:
        """Keep the records aside that have an error; only these are explained at length: a few by the driver itself."""
        bad = decoded.where(f"{ERROR} IS NOT NULL")
        explain = self._decoder.explainer() if isinstance(self._decoder, ExplainingDecoder) else None
        if explain is not None and not are_few:
            bad = bad.withColumn(ERROR, F.udf(explain, "string", useArrow=False)("value", ERROR))
        letters = bad.selectExpr(f"{ERROR} AS reason", *record_columns())
        tx.quarantine(letters, are_few=are_few, explain=explain if are_few else None)

    def _append(self, tx: SinkTransaction, decoded: DataFrame) -> RecordCounts:
        """Append the rows of the good records; return how many there are of the others.

        A transform that does not read every record cannot count them: then a job of its own does.
        """
        if not self._transform.is_row_wise():
            counts = count_records(decoded)
            if not counts.stale:
                tx.write(self._rows(decoded), keys=self._keys)
            return counts
        counted = CountedRecords(decoded)
        rows = self._rows(counted.frame)
        if not self._transform.is_row_wise():  # as Spark says, who was asked just now
            return self._append(tx, decoded)
        return counted.counts(tx.write(rows, recorded=lambda: self._recorded_rows(decoded), keys=self._keys))

    def _send_letters(self, tx: SinkTransaction) -> None:
        """Send the letters of a batch to their topic, if there is one; also when Spark repeats the batch."""
        letters = None if self._letter_topic is None else tx.read_letters()
        if self._letter_topic is not None and letters is not None:
            self._letter_topic.send(letters)

    def _rows(self, decoded: DataFrame) -> DataFrame:
        if self._transform.is_plain and self._payload is not None:  # each projection costs milliseconds of analysis
            return decoded.where(_IS_GOOD).select(f"{DECODED}.*")
        return self._transform.apply(self._view(decoded), self._stored())

    def _recorded_rows(self, decoded: DataFrame) -> DataFrame:
        return self._transform.with_records(self._view(decoded), self._stored())

    def _view(self, decoded: DataFrame) -> DataFrame:
        if self._payload is None:
            self._payload = decoded.select(f"{DECODED}.*").columns
        return decoded.where(_IS_GOOD).selectExpr(*view_columns(self._payload))

    def _stored(self) -> list[str]:
        return ["`{}`".format(name.replace("`", "``")) for name in self._payload or ()]

    def learn(self) -> None:
        """Have the decoder learn the newest schemas."""
        self._payload = None
        if self._topics is not None:
            self._topics.learn()
        elif self._decoder is not None:
            self._decoder.refresh()


def _of_topic(name: str, pipeline: Pipeline, sink: DuckLakeSink, recorder: Recorder, topic: str) -> BatchWriter:
    """Return who writes one of several topics."""
    source = pipeline.input
    assert isinstance(source, KafkaInput)  # noqa: S101 # only that has topics
    one = source.of_topic(topic)
    narrow = pipeline.model_copy(update={"input": one})
    return BatchWriter(name, narrow, sink, make_decoder(one), recorder, keys=pipeline.sink.keys_of(topic))


def _sql(pipeline: Pipeline) -> str | None:
    return None if pipeline.transform is None else pipeline.transform.sql


def _letter_topic(pipeline: Pipeline) -> LetterTopic | None:
    source = pipeline.input
    if not isinstance(source, KafkaInput) or source.dead_letter_topic is None:
        return None
    seconds = source.timeout.total_seconds()
    return LetterTopic(source.dead_letter_topic, source.servers, source.options, seconds)
