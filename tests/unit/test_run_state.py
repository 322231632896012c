"""The recorder that knows what each pipeline does now: its state follows from what happens, and nothing grows."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from ducklake_core.errors import CatalogUnavailable, CommitConflict, StreamFenced
from ducklake_core.observe import CatalogAway, CatalogBack, Event, Flushed, MaintenanceDone, Recorders
from ducklake_core.pending import AddedCount
from ducklake_sinks.events import FlushFailed
from ducklake_sinks.report import BatchFailed, BatchReplayed, BatchReport, BatchStopped, DeadLettersKept
from ducklake_streaming.jobs.events import PipelineEnded, PipelineFailed, PipelineRestarted, PipelineStarted
from ducklake_streaming.jobs.exit_codes import ExitCode
from ducklake_streaming.kafka.errors import BrokerUnavailable
from ducklake_streaming.kafka.events import BrokerAway, BrokerBack
from ducklake_streaming.metrics.run_facts import Outcome, PipelineFacts, State, Totals
from ducklake_streaming.metrics.run_state import KEPT_BATCHES, KEPT_THINGS, LONGEST_TEXT, MAX_PIPELINES, RunState

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
AWAY = CatalogUnavailable("no answer from 'db'")
NO_BROKER = BrokerUnavailable("no broker answers")
CONFLICT = CommitConflict("table 'main.t' was dropped")
FENCED = StreamFenced("another run has taken over")
STARTED = PipelineStarted("p")


def batch(number: int = 0, rows: int = 3, *, snapshot: int | None = 7) -> BatchReport:
    added = {"main.t": AddedCount(rows, 8 * rows, 0, 0, 0)}
    return BatchReport({"stream": "s", "batch": number}, snapshot, added, None, {"total": 0.25})


def catalog_away() -> CatalogAway:
    return CatalogAway("db", 1, 0.0, 120.0, AWAY)


def after(*events: Event) -> PipelineFacts:
    """Return the one pipeline `p`, whose stream is `s`, after these events."""
    state = RunState(now=lambda: NOW)
    recorder = Recorders(state, state.recorder("p"))
    for event in events:
        recorder.record(event)
    [found] = state.facts().pipelines
    return found


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((), State.STARTING),
        ((STARTED,), State.RUNNING),
        ((batch(),), State.RUNNING),
        ((STARTED, catalog_away()), State.NO_CATALOG),
        ((catalog_away(),), State.NO_CATALOG),
        ((STARTED, catalog_away(), CatalogBack("db", 2, 3.0)), State.RUNNING),
        ((STARTED, catalog_away(), batch()), State.RUNNING),
        ((STARTED, catalog_away(), Flushed("main.t", 0, 0, 0, 8, 0.1)), State.RUNNING),
        ((STARTED, BrokerAway("s", "k:1", 0.0, 60.0, NO_BROKER)), State.NO_BROKER),
        ((BrokerAway("s", "k:1", 0.0, 60.0, NO_BROKER), BrokerBack("s", "k:1", 2.0)), State.STARTING),
        ((STARTED, PipelineRestarted("p", NO_BROKER)), State.STARTING),
        ((STARTED, BatchFailed({"stream": "s", "batch": 1}, CONFLICT)), State.FAILED),
        ((STARTED, PipelineFailed("p", ExitCode.FAILED, CONFLICT)), State.FAILED),
        ((STARTED, PipelineFailed("p", ExitCode.FENCED, FENCED)), State.FENCED),
        ((BatchFailed({"stream": "s"}, FENCED),), State.FENCED),
        ((STARTED, PipelineFailed("p", ExitCode.FAILED, CONFLICT), catalog_away()), State.FAILED),
        ((STARTED, PipelineEnded("p")), State.ENDED),
        ((STARTED, BatchStopped({"stream": "s"}, CONFLICT)), State.ENDED),
        ((PipelineEnded("p"), STARTED), State.RUNNING),
    ],
    ids=lambda value: "-".join(one.line for one in value) if isinstance(value, tuple) else str(value),
)
def test_the_state_of_a_pipeline_follows_from_what_happened(events: tuple[Event, ...], expected: State) -> None:
    assert after(*events).state is expected


def test_batches_are_counted_and_the_last_ones_are_kept() -> None:
    replayed = BatchReplayed({"stream": "s", "batch": 0}, 7, {}, None, {"total": 0.1})

    found = after(replayed, *(batch(number) for number in range(1, 20)), batch(20, rows=0, snapshot=None))

    assert found.totals == Totals(batches=21, rows=57, replayed=1)
    assert [one.number for one in found.batches] == list(range(20, 20 - KEPT_BATCHES, -1))
    assert [one.outcome for one in found.batches[:2]] == [Outcome.EMPTY, Outcome.COMMITTED]
    assert (found.batches[1].rows, found.batches[1].seconds, found.batches[1].snapshot_id) == (3, 0.25, 7)


def test_an_error_is_kept_as_one_line_with_its_time_even_when_all_is_well_again() -> None:
    found = after(STARTED, BatchFailed({"stream": "s"}, CONFLICT), STARTED, batch())

    assert (found.state, found.error, found.error_at) == (State.RUNNING, "table 'main.t' was dropped", NOW)
    assert found.totals.failed == 1


def test_what_happens_beside_the_pipelines_is_of_none_and_an_outage_of_all() -> None:
    state = RunState(now=lambda: NOW)
    for name in ("a", "b"):
        state.recorder(name).record(PipelineStarted(name))

    state.record(Flushed("main.t", 5, 1, 900, 8, 0.1))
    state.record(catalog_away())

    assert [(one.name, one.state) for one in state.facts().pipelines] == [
        ("a", State.NO_CATALOG),
        ("b", State.NO_CATALOG),
    ]


def test_dead_letters_flushes_and_warnings_are_kept_the_newest_first() -> None:
    times = iter(NOW + timedelta(seconds=second) for second in range(10))
    state = RunState(now=lambda: next(times))

    for reason in ("first", "second"):
        state.recorder("p").record(DeadLettersKept({"stream": "s", "batch": 1}, "main.t", 2, "main.dead", reason))
    state.record(Flushed("main.t", 5, 1, 900, 8, 0.1))
    state.record(Flushed("main.t", 0, 0, 0, 8, 0.1))
    state.record(FlushFailed({"table": "main.t"}, 1, CONFLICT))
    state.record(MaintenanceDone("merge", "main.t", 10, 1, 0, 0, 0, 7, 0.1))
    facts = state.facts()

    assert [(one.reason, one.pipeline, one.rows) for one in facts.letters] == [("second", "p", 2), ("first", "p", 2)]
    assert [(one.table, one.rows, one.size_bytes) for one in facts.flushes] == [("main.t", 5, 900)]
    assert [one.event for one in facts.warnings] == ["flush_failed"]
    assert "table=main.t" in facts.warnings[0].text


def test_an_outage_that_lasts_is_one_warning_and_hides_no_other() -> None:
    state = RunState(now=lambda: NOW)

    state.record(FlushFailed({"table": "main.t"}, 1, CONFLICT))
    for attempt in range(2 * KEPT_THINGS):
        state.record(CatalogAway("db", attempt, float(attempt), 120.0, AWAY))

    [away, flush] = state.facts().warnings
    assert (away.event, flush.event) == ("catalog_unavailable", "flush_failed")
    assert f"attempt={2 * KEPT_THINGS - 1}" in away.text


def test_secrets_are_taken_out_of_errors_reasons_and_warnings() -> None:
    state = RunState(now=lambda: NOW, redact=lambda text: text.replace("hunter2", "***"))

    recorder = Recorders(state, state.recorder("p"))

    recorder.record(BatchFailed({"stream": "s"}, CommitConflict("password hunter2 " + "x" * LONGEST_TEXT)))
    recorder.record(DeadLettersKept({"stream": "s"}, "main.t", 1, "main.dead", "hunter2 is no bigint"))

    assert "hunter2" not in repr(state.facts())
    assert "***" in repr(state.facts().pipelines) and "***" in repr(state.facts().letters)  # noqa: PT018 # one thought


def test_nothing_grows_without_end() -> None:
    state = RunState(now=lambda: NOW)

    for number in range(3 * MAX_PIPELINES):
        recorder = Recorders(state, state.recorder(f"query-{number}"))
        recorder.record(batch(number))
        recorder.record(BatchFailed({}, CommitConflict(f"{number}" + "x" * 10 * LONGEST_TEXT)))
        recorder.record(DeadLettersKept({}, "main.t", 1, "main.dead", "y" * 10 * LONGEST_TEXT))
    facts = state.facts()

    assert len(facts.pipelines) == MAX_PIPELINES
    assert len(facts.letters) == len(facts.warnings) == KEPT_THINGS
    assert max(len(one.error or "") for one in facts.pipelines) == LONGEST_TEXT
    assert max(len(one.reason or "") for one in facts.letters) == LONGEST_TEXT


def test_many_threads_record_at_once_and_nothing_is_lost() -> None:
    state = RunState()
    recorder = state.recorder("p")

    def record() -> None:
        for number in range(500):
            recorder.record(batch(number, rows=1))

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert state.facts().pipelines[0].totals.rows <= 2000
    for thread in threads:
        thread.join()

    assert state.facts().pipelines[0].totals == Totals(batches=2000, rows=2000)
