"""Every metric that we export, declared once: its name, type, labels, unit and meaning. No Spark.

What counts and measures refers to these values; `docs/metrics.md`, the dashboards and the alerts are checked against
them. Labels are bounded: a table beyond the cap is counted as `other`, and nothing here is an id or a path.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

OTHER = "other"  # the label of all tables beyond the cap

PIPELINE, TABLE, CONSUMER = "pipeline", "table", "consumer"
PHASE, OUTCOME, OPERATION, CAUSE = "phase", "outcome", "operation", "cause"
TOPIC, PARTITION = "topic", "partition"

# From the floor of a ten-row commit to a large batch that takes minutes.
SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Kind(StrEnum):
    """How a metric behaves in time."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. A counter's name ends in `_total`; a histogram's series have `_bucket`, `_sum` and `_count`."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


def _counter(name: str, help_text: str, *labels: str) -> Metric:
    return Metric(name, Kind.COUNTER, help_text, labels)


def _gauge(name: str, help_text: str, *labels: str) -> Metric:
    return Metric(name, Kind.GAUGE, help_text, labels)


def _seconds(name: str, help_text: str, *labels: str) -> Metric:
    return Metric(name, Kind.HISTOGRAM, help_text, labels)


# ---- the sink: what pipelines write

SINK_ROWS = _counter("ducklake_sink_rows_total", "Rows committed, without dead letters.", PIPELINE, TABLE)
SINK_INLINED_ROWS = _counter(
    "ducklake_sink_inlined_rows_total", "Rows committed into the catalog, of all rows.", PIPELINE, TABLE
)
SINK_BYTES = _counter("ducklake_sink_bytes_total", "Bytes of data files committed by batches.", PIPELINE, TABLE)
SINK_FILES = _counter("ducklake_sink_files_total", "Data files committed by batches.", PIPELINE, TABLE)
SINK_INPUT_ROWS = _counter(
    "ducklake_sink_input_rows_total",
    "Rows that Spark has read for batches; those of a batch that it reads twice, as one with bad records, count twice.",
    PIPELINE,
)
SINK_BATCHES = _counter(
    "ducklake_sink_batches_total",
    "Batches by what became of them: committed, replayed (the ledger had them), empty, failed, stopped.",
    PIPELINE,
    OUTCOME,
)
SINK_FAILURES = _counter(
    "ducklake_sink_failures_total",
    "Batches that failed, by cause: catalog (away or slow), storage (the data path refused), data (rows or schema), "
    "fenced, lost (records or snapshots are gone), other.",
    PIPELINE,
    CAUSE,
)
SINK_PHASE_SECONDS = _seconds(
    "ducklake_sink_phase_seconds",
    "Seconds of a batch by phase: collect, write, commit, total; and of flushes beside batches: flush.",
    PIPELINE,
    PHASE,
)
SINK_COMMIT_ATTEMPTS = _counter(
    "ducklake_sink_commit_attempts_total",
    "Attempts to commit batches, and flushes beside them, that ended well or were repeated.",
    PIPELINE,
)
SINK_COMMIT_RETRIES = _counter(
    "ducklake_sink_commit_retries_total",
    "Attempts that were repeated, by cause: conflict (another commit came first), unavailable (the catalog was away).",
    PIPELINE,
    CAUSE,
)
SINK_COMMITS_UNKNOWN = _counter(
    "ducklake_sink_commits_unknown_total",
    "Commits whose answer was lost, by what was found out: committed, repeated, unresolved.",
    PIPELINE,
    OUTCOME,
)
SINK_LAST_COMMIT = _gauge(
    "ducklake_sink_last_commit_timestamp_seconds",
    "When a batch was last committed, found committed, or had no rows.",
    PIPELINE,
)
SINK_LAST_PROGRESS = _gauge(
    "ducklake_sink_last_progress_timestamp_seconds",
    "When the query last reported progress, with rows or none.",
    PIPELINE,
)
SINK_EVENT_TIME_LAG = _gauge(
    "ducklake_sink_event_time_lag_seconds",
    "Age of the newest record of the last batch when it was committed.",
    PIPELINE,
)
SINK_TRIGGER = _gauge("ducklake_sink_trigger_seconds", "The trigger's interval; 0: as fast as possible.", PIPELINE)
SINK_RUNNING = _gauge("ducklake_sink_running", "1 while the pipeline's query runs, else 0.", PIPELINE)
SINK_ENDED = _gauge(
    "ducklake_sink_ended",
    "1 when the pipeline has ended as told: it was stopped, or there was no more to do; else 0.",
    PIPELINE,
)
SINK_FENCED = _gauge("ducklake_sink_fenced", "1 when another run has taken over the stream, else 0.", PIPELINE)
SINK_DEAD_LETTERS = _counter(
    "ducklake_sink_dead_letters_total",
    "Records kept aside, by cause: unreadable (not in the input's format), schema (unknown or refused), value (it does "
    "not fit its column), missing (null where none may be), other.",
    PIPELINE,
    CAUSE,
)
SINK_KAFKA_LAG = _gauge(
    "ducklake_sink_kafka_lag_records",
    "Records in the partition that are not committed yet.",
    PIPELINE,
    TOPIC,
    PARTITION,
)
SINK_KAFKA_MISSING = _counter(
    "ducklake_sink_kafka_missing_records_total",
    "Records that were gone before they were read; where nobody can know how many, one for each time.",
    PIPELINE,
    TOPIC,
    PARTITION,
)
SINK_UPSERT_ROWS = _counter(
    "ducklake_sink_upsert_rows_total",
    "Changes applied by key, by outcome: inserted, updated, deleted, truncated, unchanged, superseded (by a newer one "
    "of the same batch), late (older than what the table knows).",
    PIPELINE,
    TABLE,
    OUTCOME,
)
SINK_UPSERT_FILES = _counter(
    "ducklake_sink_upsert_files_opened_total", "Data files that were searched for keys of changes.", PIPELINE, TABLE
)
SINK_FLUSHED_ROWS = _counter("ducklake_sink_flushed_rows_total", "Inlined rows that were flushed to files.", TABLE)
SINK_FLUSHED_BYTES = _counter("ducklake_sink_flushed_bytes_total", "Bytes of files written by flushes.", TABLE)
SINK_FLUSH_SECONDS = _seconds("ducklake_sink_flush_seconds", "Seconds of a flush.", TABLE)
SINK_FLUSH_FAILURES = _counter("ducklake_sink_flush_failures_total", "Flushes that failed.", TABLE)

# ---- the source: who reads changes

SOURCE_ROWS = _counter(
    "ducklake_source_rows_total",
    "Changes read by pipelines, by cause: insert, update_preimage, update_postimage, delete; those of batches that "
    "Spark reads once, by a transform that makes each row of one. Of inserts alone, all that Spark reads: some twice.",
    PIPELINE,
    CAUSE,
)
SOURCE_LOST_SNAPSHOTS = _counter(
    "ducklake_source_lost_snapshots_total", "Snapshots that expired before they were read.", PIPELINE
)
SOURCE_BEHIND_SNAPSHOTS = _gauge(
    "ducklake_source_behind_snapshots", "Snapshots that a consumer has yet to read.", CONSUMER
)
SOURCE_BEHIND_SECONDS = _gauge(
    "ducklake_source_behind_seconds", "Age of the oldest snapshot that a consumer has yet to read; 0: none.", CONSUMER
)
SOURCE_EXPIRY_MARGIN = _gauge(
    "ducklake_source_expiry_margin_seconds",
    "How much time of history is left between the oldest snapshot and the first that the consumer has yet to read, or "
    "now where it has read all: at 0 it loses changes.",
    CONSUMER,
)

# ---- tables

TABLE_ROWS = _gauge("ducklake_table_rows", "Rows of the table.", TABLE)
TABLE_DATA_FILES = _gauge("ducklake_table_data_files", "Live data files.", TABLE)
TABLE_SMALL_FILES = _gauge("ducklake_table_small_files", "Live data files below the size of a small file.", TABLE)
TABLE_FILE_BYTES = _gauge("ducklake_table_file_bytes", "Bytes of live data files.", TABLE)
TABLE_DELETE_FILES = _gauge("ducklake_table_delete_files", "Live delete files.", TABLE)
TABLE_DELETED_ROWS = _gauge("ducklake_table_deleted_rows", "Rows of live data files that are marked as deleted.", TABLE)
TABLE_INLINED_ROWS = _gauge("ducklake_table_inlined_rows", "Rows in the catalog that are not flushed yet.", TABLE)
TABLE_INLINED_BYTES = _gauge("ducklake_table_inlined_bytes", "Bytes of these rows, by the catalog's estimate.", TABLE)
TABLE_INLINED_AGE = _gauge("ducklake_table_inlined_age_seconds", "Age of the oldest of these rows; 0: none.", TABLE)

# ---- the catalog

CATALOG_UP = _gauge("ducklake_catalog_up", "1 when the catalog answered the last question, else 0.")
CATALOG_LAST_POLL = _gauge(
    "ducklake_catalog_last_poll_timestamp_seconds", "When the catalog was last asked with success."
)
CATALOG_QUERY_SECONDS = _seconds(
    "ducklake_catalog_query_seconds",
    "Seconds of the poller's questions, by operation: totals, streams, dead_letters, consumers, runs, size.",
    OPERATION,
)
CATALOG_OUTAGES = _counter(
    "ducklake_catalog_outages_total", "Times that the catalog could not be reached and was waited for."
)
CATALOG_SNAPSHOTS = _gauge("ducklake_catalog_snapshots", "Snapshots that have not expired.")
CATALOG_OLDEST_SNAPSHOT = _gauge(
    "ducklake_catalog_oldest_snapshot_timestamp_seconds", "The time of the oldest snapshot."
)
CATALOG_LAST_SNAPSHOT = _gauge("ducklake_catalog_last_snapshot_timestamp_seconds", "The time of the newest snapshot.")
CATALOG_BYTES = _gauge("ducklake_catalog_size_bytes", "Bytes of the catalog's tables in its database.")

# ---- maintenance, by whomever: the catalog keeps the record of each run

MAINTENANCE_RUNS = _counter(
    "ducklake_maintenance_runs_total", "Runs recorded since the start, by outcome: done, failed.", OPERATION, OUTCOME
)
MAINTENANCE_SECONDS = _counter("ducklake_maintenance_run_seconds_total", "Seconds of these runs.", OPERATION)
MAINTENANCE_LAST_RUN = _gauge(
    "ducklake_maintenance_last_run_timestamp_seconds", "When the operation was last run.", OPERATION
)
MAINTENANCE_LAST_SUCCESS = _gauge(
    "ducklake_maintenance_last_success_timestamp_seconds",
    "When the operation was last run without a failure.",
    OPERATION,
)
MAINTENANCE_EVERY = _gauge(
    "ducklake_maintenance_every_seconds", "How often the job file asks for maintenance; absent: it does not."
)

# ---- the process

BUILD_INFO = _gauge("ducklake_build_info", "Always 1; its labels are versions.", "version", "spark", "python")
JVM_MEMORY = _gauge("ducklake_jvm_memory_bytes", "Memory that the driver's JVM uses, by area: heap, nonheap.", "area")
JVM_MEMORY_MAX = _gauge("ducklake_jvm_memory_max_bytes", "Memory that the driver's JVM may use; heap only.", "area")
JVM_GC_SECONDS = _counter(
    "ducklake_jvm_gc_seconds_total", "Seconds that the driver's JVM has spent collecting garbage."
)
JVM_THREADS = _gauge("ducklake_jvm_threads", "Threads of the driver's JVM.")

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
