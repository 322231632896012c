"""Spans of batches and flushes: names, times, attributes of a bounded size, errors without secrets."""

import pickle
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from ducklake_core.clock import Clock
from ducklake_core.errors import CatalogUnavailable, InvalidInput
from ducklake_core.observe import CommitMade, Event, Flushed, Recorders
from ducklake_core.pending import AddedCount
from ducklake_sinks.events import FlushFailed
from ducklake_sinks.report import BatchFailed, BatchReplayed, BatchReport, BatchStopped
from ducklake_sinks.stopwatch import MAX_PHASES, BatchCourse, PhaseTime, Stopwatch
from ducklake_streaming.jobs.references import HIDDEN, Redactor
from ducklake_streaming.tracing import TraceRecorder
from ducklake_streaming.tracing import recorder as recorder_module
from ducklake_streaming.tracing.attributes import MAX_PARTITIONS, MAX_TABLES

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
END = int(NOW.timestamp()) * 1_000_000_000
BATCH = {"stream": "orders", "batch": 41}
ADDED = AddedCount(inlined_rows=2, inlined_bytes=16, files=1, file_rows=5, file_bytes=90)
PHASES = (PhaseTime("collect", 0.125, 0.25), PhaseTime("commit", 0.5, 0.375))
OFFSETS = [{"orders": {"0": 10, "1": 7}}], [{"orders": {"0": 20, "1": 7}}]
COURSE = BatchCourse(1.0, PHASES, *OFFSETS)


def spans_of(*events: Event, redact: Callable[[str], str] = str) -> list[ReadableSpan]:
    """Return the spans that are made of events, in the order in which they end."""
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    recorder = TraceRecorder(provider, redact=redact, clock=Clock(now=lambda: NOW))
    for event in events:
        recorder.record(event)
    return list(memory.get_finished_spans())


def attributes_of(span: ReadableSpan) -> dict[str, object]:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in (span.attributes or {}).items()}


def report(**changes: object) -> BatchReport:
    facts = {"names": BATCH, "snapshot_id": 43, "added": {"main.t": ADDED}, "dead_letters": 1, "seconds": {}}
    return BatchReport(**{**facts, "course": COURSE, **changes})  # type: ignore[arg-type] # each is of its own type


def test_a_batch_is_a_span_with_its_phases_below_at_their_times() -> None:
    collect, commit, batch = spans_of(report())

    assert [span.name for span in (batch, collect, commit)] == ["ducklake.batch", "ducklake.collect", "ducklake.commit"]
    assert batch.parent is None
    assert collect.parent == commit.parent == batch.context
    second = 1_000_000_000
    assert (batch.start_time, batch.end_time) == (END - second, END)
    assert (collect.start_time, collect.end_time) == (END - second * 7 // 8, END - second * 5 // 8)
    assert (commit.start_time, commit.end_time) == (END - second // 2, END - second // 8)
    assert batch.status.status_code is StatusCode.UNSET


def test_a_batch_says_what_it_wrote_and_which_offsets_it_has() -> None:
    batch = spans_of(report())[-1]

    assert attributes_of(batch) == {
        "ducklake.stream": "orders",
        "ducklake.batch": 41,
        "ducklake.outcome": "committed",
        "ducklake.snapshot_id": 43,
        "ducklake.rows": 6,
        "ducklake.inlined_rows": 2,
        "ducklake.files": 1,
        "ducklake.dead_letters": 1,
        "ducklake.tables": ["main.t"],
        "ducklake.table_count": 1,
        "ducklake.kafka.start_offsets": ["orders-0:10", "orders-1:7"],
        "ducklake.kafka.end_offsets": ["orders-0:20", "orders-1:7"],
        "ducklake.kafka.partition_count": 2,
    }


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (report(snapshot_id=None, added={}), "empty"),
        (BatchReplayed(BATCH, None, {}, None, {}, COURSE), "replayed"),
        (BatchStopped(BATCH, OSError("stopped"), COURSE), "stopped"),
        (BatchFailed(BATCH, OSError("no"), COURSE), "failed"),
        (BatchFailed({"batch": 0}, OSError("no")), "failed"),
    ],
)
def test_each_end_of_a_batch_is_told(event: Event, outcome: str) -> None:
    span = spans_of(event)[-1]

    assert attributes_of(span)["ducklake.outcome"] == outcome
    assert (span.status.status_code is StatusCode.ERROR) == (outcome == "failed")


def test_attributes_and_phases_are_bounded_however_large_a_batch_is() -> None:
    many = [{"t": {str(partition): 1 for partition in range(1000)}}]
    stopwatch = Stopwatch(iter(range(10_000)).__next__)
    for _ in range(1000):
        with stopwatch.phase("collect"):
            pass
    event = report(
        added={f"main.t{number}": ADDED for number in range(1000)},
        course=BatchCourse(1.0, stopwatch.phases(), many, many),
    )

    *phases, batch = spans_of(event)

    found = attributes_of(batch)
    assert [len(found[f"ducklake.{name}"]) for name in ("tables", "kafka.start_offsets", "kafka.end_offsets")] == [  # type: ignore[arg-type] # lists
        MAX_TABLES,
        MAX_PARTITIONS,
        MAX_PARTITIONS,
    ]
    assert (found["ducklake.table_count"], found["ducklake.kafka.partition_count"]) == (1000, 1000)
    assert len(phases) == MAX_PHASES
    assert stopwatch.read()["collect"] == 1000


def test_offsets_of_other_sources_are_not_taken_for_those_of_kafka() -> None:
    told = [{"logOffset": 3}, None, "text"]

    batch = spans_of(report(course=BatchCourse(1.0, (), told, told)))[-1]

    assert not [name for name in attributes_of(batch) if "kafka" in name]


def test_a_failed_batch_has_the_line_of_its_error_and_no_secret() -> None:
    error = CatalogUnavailable("cannot reach db with planted\nand more of planted")
    names = {"stream": "planted", "batch": 1}

    [batch] = spans_of(BatchFailed(names, error), redact=Redactor(["planted"]).redact)

    assert batch.status.status_code is StatusCode.ERROR
    assert batch.status.description == f"CatalogUnavailable: cannot reach db with {HIDDEN}"
    assert attributes_of(batch)["error.type"] == "CatalogUnavailable"
    [event] = batch.events
    assert event.attributes == {
        "exception.type": "CatalogUnavailable",
        "exception.message": f"cannot reach db with {HIDDEN}",
    }
    assert "planted" not in batch.to_json()


def test_a_flush_is_a_trace_of_its_own_and_one_that_fails_is_told_as_often_as_the_log_says() -> None:
    flushed = Flushed("main.t", 5, 1, 900, 8, 0.5)
    failed = [FlushFailed({"table": "main.t"}, times, OSError("no room")) for times in range(1, 9)]

    good, *bad = spans_of(flushed, *failed)

    assert (good.name, good.parent, good.end_time, good.start_time) == (
        "ducklake.flush",
        None,
        END,
        END - 500_000_000,
    )
    assert attributes_of(good)["ducklake.snapshot_id"] == 8
    assert [attributes_of(span)["ducklake.times"] for span in bad] == [1, 2, 4, 8]
    assert {span.status.description for span in bad} == {"OSError: no room"}


def test_other_events_make_no_span_and_what_is_not_sampled_makes_none_either() -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider(sampler=ALWAYS_OFF)
    provider.add_span_processor(SimpleSpanProcessor(memory))

    TraceRecorder(provider).record(report())

    assert memory.get_finished_spans() == ()
    assert spans_of(CommitMade(7, 1, 0.5)) == []


def test_a_recorder_without_a_provider_pickles_and_one_with_a_provider_says_why_not() -> None:
    copy = pickle.loads(pickle.dumps(Recorders(TraceRecorder())))  # noqa: S301 # our own

    copy.record(report())  # by the provider of the process, which does nothing
    with pytest.raises(InvalidInput, match="set_tracer_provider"):
        pickle.dumps(TraceRecorder(TracerProvider()))


def test_a_recorder_that_was_pickled_tells_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(recorder_module, "get_tracer", lambda *_: provider.get_tracer("other process"))
    recorder = TraceRecorder(redact=Redactor(["planted"]).redact)

    copy = pickle.loads(pickle.dumps(recorder))  # noqa: S301 # our own
    copy.record(BatchFailed({"stream": "planted"}, CatalogUnavailable("no answer with planted")))

    [batch] = memory.get_finished_spans()
    assert HIDDEN in batch.to_json()
    assert "planted" not in batch.to_json()
