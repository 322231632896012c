"""Events become numbers: which one counts what, with which labels."""

import pickle
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from ducklake_core.clock import Clock
from ducklake_core.errors import CatalogUnavailable, ContentionError, InvalidInput, SchemaMismatch, StreamFenced
from ducklake_core.observe import (
    CatalogAway,
    CatalogBack,
    CommitDoubted,
    CommitMade,
    CommitRetried,
    ConflictRetried,
    EpochReplayed,
    Event,
    Flushed,
    Recorders,
    Resolution,
    Retried,
)
from ducklake_core.pending import AddedCount
from ducklake_core.upsert.report import UpsertReport
from ducklake_sinks.events import BatchRebuilt, ChangesApplied, FlushFailed
from ducklake_sinks.report import BatchFailed, BatchReplayed, BatchReport, BatchStopped, DeadLettersKept
from ducklake_streaming.jobs.events import (
    ChangesRead,
    PipelineEnded,
    PipelineFailed,
    PipelineRestarted,
    PipelineStarted,
    RecordsRead,
)
from ducklake_streaming.jobs.exit_codes import ExitCode
from ducklake_streaming.kafka.events import RecordsMissing
from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.recorder import LakeRecorder, PipelineRecorder
from ducklake_streaming.metrics.registry import Numbers

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
BATCH = {"stream": "s", "batch": 3}
SECONDS = {"collect": 0.01, "commit": 0.02, "total": 0.05}
ADDED = {"main.t": AddedCount(inlined_rows=2, inlined_bytes=16, files=1, file_rows=5, file_bytes=90)}
REPORT = BatchReport(BATCH, 7, ADDED, None, SECONDS)
AWAY = CatalogUnavailable("no")
CONFLICT = ContentionError("lost")
APPLIED = ChangesApplied(BATCH, "main.t", UpsertReport(9, 1, 3, 2, 1, unchanged=1, late=1, files_opened=2))
MISSING = RecordsMissing("s", "t", 0, 5, 1, 6, 9, "gone")
LETTERS = {"the value is no UTF-8": 2, "field 'a' is no int, but 1.5": 1}


def counted(*events: Event, numbers: Numbers | None = None) -> Numbers:
    """Return the numbers after some events of pipeline `p`."""
    found = numbers or Numbers()
    recorder = Recorders(LakeRecorder(found), PipelineRecorder(found, "p", Clock(now=lambda: NOW)))
    for event in events:
        recorder.record(event)
    return found


CASES: dict[str, tuple[list[Event], m.Metric, tuple[str, ...], float]] = {
    "rows": ([REPORT, REPORT], m.SINK_ROWS, ("p", "main.t"), 14),
    "inlined rows": ([REPORT], m.SINK_INLINED_ROWS, ("p", "main.t"), 2),
    "files": ([REPORT], m.SINK_FILES, ("p", "main.t"), 1),
    "bytes": ([REPORT], m.SINK_BYTES, ("p", "main.t"), 90),
    "committed": ([REPORT], m.SINK_BATCHES, ("p", "committed"), 1),
    "empty": ([BatchReport(BATCH, None, {}, None, SECONDS)], m.SINK_BATCHES, ("p", "empty"), 1),
    "replayed": ([BatchReplayed(BATCH, None, {}, None, SECONDS)], m.SINK_BATCHES, ("p", "replayed"), 1),
    "stopped": ([BatchStopped(BATCH, AWAY)], m.SINK_BATCHES, ("p", "stopped"), 1),
    "a stop is no failure": ([BatchStopped(BATCH, AWAY)], m.SINK_FAILURES, ("p", "catalog"), 0),
    "failed": ([BatchFailed(BATCH, AWAY)], m.SINK_BATCHES, ("p", "failed"), 1),
    "why failed": ([BatchFailed(BATCH, AWAY)], m.SINK_FAILURES, ("p", "catalog"), 1),
    "a query that fails of its batch has failed once": (
        [BatchFailed(BATCH, AWAY), PipelineFailed("p", ExitCode.FAILED, AWAY)],
        m.SINK_FAILURES,
        ("p", "catalog"),
        1,
    ),
    "a query that fails of its source": (
        [BatchFailed(BATCH, AWAY), REPORT, PipelineFailed("p", ExitCode.FAILED, AWAY)],
        m.SINK_FAILURES,
        ("p", "catalog"),
        2,
    ),
    "a restart": ([PipelineRestarted("p", ValueError("no"))], m.SINK_FAILURES, ("p", "other"), 1),
    "last commit": ([REPORT], m.SINK_LAST_COMMIT, ("p",), NOW.timestamp()),
    "last commit of a replay": (
        [BatchReplayed(BATCH, None, {}, None, SECONDS)],
        m.SINK_LAST_COMMIT,
        ("p",),
        NOW.timestamp(),
    ),
    "age of the newest record": (
        [RecordsRead("p", NOW - timedelta(seconds=9)), REPORT],
        m.SINK_EVENT_TIME_LAG,
        ("p",),
        9,
    ),
    "a clock that is behind the broker's": (
        [RecordsRead("p", NOW + timedelta(seconds=9)), REPORT],
        m.SINK_EVENT_TIME_LAG,
        ("p",),
        0,
    ),
    "letters by cause": ([DeadLettersKept(BATCH, None, 3, "d", None, LETTERS)], m.SINK_DEAD_LETTERS, ("p", "value"), 1),
    "letters that nobody can read": (
        [DeadLettersKept(BATCH, None, 3, "d", None)],
        m.SINK_DEAD_LETTERS,
        ("p", "other"),
        3,
    ),
    "letters are no rows": (
        [DeadLettersKept(BATCH, "main.t", 7, "main.t", None), REPORT],
        m.SINK_ROWS,
        ("p", "main.t"),
        None,  # type: ignore[dict-item] # nobody has told it
    ),
    "attempts": ([CommitMade(7, 3, 0.1), EpochReplayed("s", 3)], m.SINK_COMMIT_ATTEMPTS, ("p",), 2),
    "repeated attempts": ([CommitRetried("c", 1, CONFLICT), CommitMade(7, 2, 0.1)], m.SINK_COMMIT_ATTEMPTS, ("p",), 2),
    "contention": ([CommitRetried("c", 1, CONFLICT)], m.SINK_COMMIT_RETRIES, ("p", "conflict"), 1),
    "outage at commit": ([CommitRetried("c", 1, AWAY)], m.SINK_COMMIT_RETRIES, ("p", "unavailable"), 1),
    "questions are no commits": ([Retried("c", 1, AWAY)], m.SINK_COMMIT_RETRIES, ("p", "unavailable"), 0),
    "conflict of a batch": ([BatchRebuilt(BATCH, CONFLICT)], m.SINK_COMMIT_RETRIES, ("p", "conflict"), 1),
    "conflict of a flush": ([ConflictRetried(1, CONFLICT)], m.SINK_COMMIT_RETRIES, ("p", "conflict"), 1),
    "doubt": ([CommitDoubted(Resolution.COMMITTED, 2)], m.SINK_COMMITS_UNKNOWN, ("p", "committed"), 1),
    "changes": ([ChangesRead("p", {"delete": 4}), REPORT, REPORT], m.SOURCE_ROWS, ("p", "delete"), 4),
    "changes of a batch that is read again": (
        [ChangesRead("p", {"delete": 4}), BatchFailed(BATCH, AWAY), ChangesRead("p", {"delete": 4}), REPORT],
        m.SOURCE_ROWS,
        ("p", "delete"),
        4,
    ),
    "changes of a batch that the ledger had": (
        [ChangesRead("p", {"delete": 4}), REPORT, BatchReplayed(BATCH, None, {}, None, SECONDS)],
        m.SOURCE_ROWS,
        ("p", "delete"),
        4,
    ),
    "missing records": ([MISSING, REPORT, MISSING, REPORT, REPORT], m.SINK_KAFKA_MISSING, ("p", "t", "0"), 10),
    "missing records of a batch that is read again": (
        [MISSING, BatchFailed(BATCH, AWAY), MISSING, REPORT],
        m.SINK_KAFKA_MISSING,
        ("p", "t", "0"),
        5,
    ),
    "missing records of a number that nobody knows": (
        [RecordsMissing("s", "t", 0, None, 1, None, None, "gone"), REPORT],
        m.SINK_KAFKA_MISSING,
        ("p", "t", "0"),
        1,
    ),
    "running": ([PipelineStarted("p")], m.SINK_RUNNING, ("p",), 1),
    "not running": ([PipelineStarted("p"), PipelineEnded("p")], m.SINK_RUNNING, ("p",), 0),
    "ended as told": ([PipelineStarted("p"), PipelineEnded("p")], m.SINK_ENDED, ("p",), 1),
    "begun again": ([PipelineEnded("p"), PipelineStarted("p")], m.SINK_ENDED, ("p",), 0),
    "what fails has not ended as told": (
        [PipelineStarted("p"), PipelineFailed("p", ExitCode.FAILED, AWAY)],
        m.SINK_ENDED,
        ("p",),
        0,
    ),
    "fenced": ([BatchFailed(BATCH, StreamFenced("no"))], m.SINK_FENCED, ("p",), 1),
    "fenced, as Spark tells it": (
        [PipelineFailed("p", ExitCode.FENCED, RuntimeError("ducklake_core.errors.StreamFenced: no"))],
        m.SINK_FENCED,
        ("p",),
        1,
    ),
    "fenced no more": ([BatchFailed(BATCH, StreamFenced("no")), PipelineStarted("p")], m.SINK_FENCED, ("p",), 0),
    "one outage": (
        [CatalogAway("c", 1, 0, 9, AWAY), CatalogAway("c", 2, 5, 9, AWAY, is_new=False)],
        m.CATALOG_OUTAGES,
        (),
        1,
    ),
    "one outage that several meet": (
        [CatalogAway("c", 1, 0, 9, AWAY), CatalogAway("c", 1, 0, 9, AWAY)],
        m.CATALOG_OUTAGES,
        (),
        1,
    ),
    "two outages": (
        [CatalogAway("c", 1, 0, 9, AWAY), CommitMade(1, 1, 1), CatalogAway("c", 1, 0, 9, AWAY)],
        m.CATALOG_OUTAGES,
        (),
        2,
    ),
    "a flush needs a catalog": (
        [CatalogAway("c", 1, 0, 9, AWAY), Flushed("main.t", 0, 0, 0, 8, 0.1)],
        m.CATALOG_UP,
        (),
        1,
    ),
    "catalog away": ([CatalogAway("c", 1, 0, 9, AWAY)], m.CATALOG_UP, (), 0),
    "catalog back": ([CatalogAway("c", 1, 0, 9, AWAY), CatalogBack("c", 2, 1)], m.CATALOG_UP, (), 1),
    "a commit needs a catalog": ([CatalogAway("c", 1, 0, 9, AWAY), CommitMade(1, 1, 1)], m.CATALOG_UP, (), 1),
    "late changes": ([APPLIED, APPLIED], m.SINK_UPSERT_ROWS, ("p", "main.t", "late"), 2),
    "files opened": ([APPLIED], m.SINK_UPSERT_FILES, ("p", "main.t"), 2),
    "flushed rows": ([Flushed("main.t", 5, 1, 900, 8, 0.01)], m.SINK_FLUSHED_ROWS, ("main.t",), 5),
    "flushed bytes": ([Flushed("main.t", 5, 1, 900, 8, 0.01)], m.SINK_FLUSHED_BYTES, ("main.t",), 900),
    "failed flush": ([FlushFailed({"table": "main.t"}, 1, AWAY)], m.SINK_FLUSH_FAILURES, ("main.t",), 1),
    "failed flush of no table": ([FlushFailed({}, 1, AWAY)], m.SINK_FLUSH_FAILURES, ("other",), 1),
}


@pytest.mark.parametrize(("events", "metric", "labels", "value"), CASES.values(), ids=CASES)
def test_event_counts(events: list[Event], metric: m.Metric, labels: tuple[str, ...], value: float) -> None:
    numbers = counted(*events)

    assert numbers.value(metric, *labels) == value


def samples(numbers: Numbers) -> Mapping[str, str]:
    lines = [line.rpartition(" ") for line in numbers.text().decode().splitlines() if not line.startswith("#")]
    return {name: value for name, _, value in lines}


def test_phases_are_a_histogram() -> None:
    found = samples(counted(REPORT, Flushed("main.t", 5, 1, 900, 8, 0.3)))

    assert found['ducklake_sink_phase_seconds_bucket{le="0.025",phase="commit",pipeline="p"}'] == "1.0"
    assert found['ducklake_sink_phase_seconds_sum{phase="total",pipeline="p"}'] == "0.05"
    assert found['ducklake_sink_phase_seconds_sum{phase="flush",pipeline="p"}'] == "0.3"
    assert found['ducklake_sink_flush_seconds_count{table="main.t"}'] == "1.0"


def test_series_are_there_before_anything_happens() -> None:
    """An increase of a counter is seen only by those who have seen it before."""
    found = samples(counted())

    for series in (
        'ducklake_sink_batches_total{outcome="failed",pipeline="p"}',
        'ducklake_sink_commits_unknown_total{outcome="unresolved",pipeline="p"}',
        'ducklake_sink_dead_letters_total{cause="schema",pipeline="p"}',
        'ducklake_sink_failures_total{cause="fenced",pipeline="p"}',
        'ducklake_sink_ended{pipeline="p"}',
        'ducklake_sink_fenced{pipeline="p"}',
        'ducklake_sink_running{pipeline="p"}',
    ):
        assert found[series] == "0.0"


def test_tables_beyond_the_cap_are_counted_together() -> None:
    numbers = Numbers(max_tables=2)
    counted(*(Flushed(f"t{n}", 10, 1, 1, 8, 0.1) for n in range(5)), numbers=numbers)

    assert [numbers.value(m.SINK_FLUSHED_ROWS, name) for name in ("t0", "t1", "t2", m.OTHER)] == [10, 10, None, 30]


def test_other_events_count_nothing() -> None:
    numbers = Numbers()

    LakeRecorder(numbers).record(REPORT)

    assert numbers.value(m.SINK_BATCHES, "p", "committed") is None


def test_recorder_does_not_travel_to_other_processes() -> None:
    with pytest.raises(InvalidInput, match="Spark Connect"):
        pickle.dumps(PipelineRecorder(Numbers(), "p"))


def test_bad_data_is_a_cause() -> None:
    assert counted(BatchFailed(BATCH, SchemaMismatch("no"))).value(m.SINK_FAILURES, "p", "data") == 1
