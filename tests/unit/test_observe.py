"""What happens goes to recorders; the log is one of them, and says each event in one line."""

import logging
import pickle
import subprocess
import sys

import pytest

from ducklake_core.errors import CatalogUnavailable
from ducklake_core.observe import (
    LOG_RECORDER,
    NO_RECORDER,
    CatalogAway,
    CatalogBack,
    CommitMade,
    Event,
    LogRecorder,
    Recorders,
)
from ducklake_sinks.report import BatchFailed, DeadLettersKept
from ducklake_streaming.jobs.events import PipelineRestarted, PipelineStarted
from tests.fixtures.events import BATCH, LINES
from tests.fixtures.logs import Ticks


class Deaf:
    """A recorder that fails."""

    def record(self, _: Event) -> None:
        raise OSError("no room")


class Memory:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event) -> None:
        self.events.append(event)


@pytest.mark.parametrize(("event", "level", "line"), LINES, ids=[type(event).__name__ for event, _, _ in LINES])
def test_each_event_is_one_line_of_the_log(
    event: Event, level: int, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    LOG_RECORDER.record(event)

    [record] = caplog.records
    assert record.levelno == level
    assert record.getMessage().startswith(line)


@pytest.mark.parametrize("event", [event for event, _, _ in LINES], ids=lambda event: type(event).__name__)
def test_an_event_pickles(event: Event) -> None:
    copy = pickle.loads(pickle.dumps(event))  # noqa: S301 # our own

    assert type(copy) is type(event)
    assert list(copy.facts()) == list(event.facts())


def test_an_event_that_is_not_logged_costs_no_text(caplog: pytest.LogCaptureFixture) -> None:
    class Silent(Event):
        line = "silent"
        level = logging.DEBUG

        def facts(self) -> dict[str, object]:
            raise AssertionError

    caplog.set_level(logging.INFO)
    LOG_RECORDER.record(Silent())

    assert caplog.records == []


def test_a_recorder_that_fails_keeps_no_other_from_being_told(caplog: pytest.LogCaptureFixture) -> None:
    memory = Memory()
    recorders = Recorders(Recorders(Deaf()), memory, NO_RECORDER)

    for _ in range(3):
        recorders.record(CommitMade(7, 1, 0.5))

    assert len(memory.events) == 3
    assert caplog.messages == [
        'recorder_failed recorder=Deaf recorded=commit_made times=1 error="OSError: no room"',
        'recorder_failed recorder=Deaf recorded=commit_made times=2 error="OSError: no room"',
    ]


def test_an_interrupt_in_a_recorder_is_no_failure_of_it() -> None:
    class Interrupted:
        def record(self, _: Event) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Recorders(Interrupted()).record(CommitMade(7, 1, 0.5))


# ---- what repeats


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines above DEBUG."""
    return [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG]


def test_a_flood_of_bad_rows_is_counted_and_spaced(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    clock = Ticks()
    log = LogRecorder(clock)

    for batch in range(3600):
        log.record(DeadLettersKept({"stream": "s", "batch": batch}, "main.t", 2, "main.letters", "bad"))
        clock.now += 1

    lines = told(caplog)
    assert lines[:3] == [
        "rows_quarantined stream=s batch=0 table=main.t rows=2 kept_in=main.letters reason=bad",
        "rows_quarantined stream=s batch=10 table=main.t rows=2 kept_in=main.letters reason=bad times=11 total_rows=22",
        "rows_quarantined stream=s batch=30 table=main.t rows=2 kept_in=main.letters reason=bad times=31 total_rows=62",
    ]
    assert [line.split()[2] for line in lines] == [
        f"batch={batch}" for batch in (0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030)
    ]
    assert len(caplog.records) == 3600  # the others are there at DEBUG


def test_what_was_held_back_at_the_end_of_a_flood_is_said_with_what_happens_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock = Ticks()
    log = LogRecorder(clock)
    for batch in range(3):
        log.record(DeadLettersKept({"stream": "s", "batch": batch}, "main.t", 2, "main.letters", "bad"))

    clock.now += 10
    log.record(CommitMade(7, 1, 0.5))
    log.record(CommitMade(8, 1, 0.5))

    assert [line.rpartition("reason=bad")[2] for line in told(caplog)] == ["", " times=3 total_rows=6"]


def test_other_tables_and_streams_have_lines_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    log = LogRecorder(Ticks())

    for table in ("main.t", "main.u"):
        for stream in ("s", "r"):
            log.record(DeadLettersKept({"stream": stream, "batch": 1}, table, 2, "main.letters", "bad"))

    assert len(caplog.records) == 4


def test_after_ten_quiet_minutes_it_is_news_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = Ticks()
    log = LogRecorder(clock)

    for seconds in (0, 10, 599, 600, 1, 600):
        clock.now += seconds
        log.record(BatchFailed(BATCH, OSError("no")))

    said = [line.rpartition('"')[2] for line in told(caplog)]
    assert said == ["", " times=2", " times=3", "", " times=3"]  # the fifth was held back, and is counted


def test_a_batch_that_fails_of_something_else_is_said_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = LogRecorder(Ticks())

    for error in (OSError("no"), OSError("no"), OSError("other"), ValueError("no")):
        log.record(BatchFailed(BATCH, error))

    assert [line.partition("error=")[2] for line in caplog.messages] == [
        '"OSError: no"',
        '"OSError: other"',
        '"ValueError: no"',
    ]


def test_who_heard_that_the_catalog_is_away_hears_that_it_is_back_and_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock = Ticks()
    log = LogRecorder(clock)

    log.record(CatalogAway("other", 1, 0.0, 120.0, CatalogUnavailable("away")))
    log.record(CatalogAway("other", 2, 1.0, 120.0, CatalogUnavailable("away")))  # held back
    log.record(CatalogBack("other", 3, 2.0))
    assert [line.split()[0] for line in caplog.messages] == ["catalog_unavailable", "catalog_available"]
    assert caplog.messages[1].endswith(" times=2")
    caplog.clear()
    for _ in range(12):  # it comes and goes
        log.record(CatalogAway("c", 1, 0.0, 120.0, CatalogUnavailable("away")))
        log.record(CatalogBack("c", 2, 0.1))
        clock.now += 1

    assert [line.split()[0] for line in caplog.messages] == 2 * ["catalog_unavailable", "catalog_available"]
    assert "times=11" in caplog.messages[2]
    log.flush()
    assert caplog.messages[4:] == ["catalog_available catalog=c attempt=2 seconds=0.1 times=12"]
    log.record(CatalogBack("c", 2, 0.1))
    log.flush()
    assert len(caplog.messages) == 5


def test_an_outage_after_a_long_one_is_said_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Ticks()
    log = LogRecorder(clock)
    for attempt in range(200):  # half an hour
        log.record(CatalogAway("c", attempt, 10.0 * attempt, 3600.0, CatalogUnavailable("away")))
        clock.now += 10
    log.record(CatalogBack("c", 201, 2000.0))
    caplog.clear()

    clock.now += 60
    log.record(CatalogAway("c", 1, 0.0, 3600.0, CatalogUnavailable("away")))
    log.record(CatalogBack("c", 2, 1.0))

    assert [line.split()[0] for line in caplog.messages] == ["catalog_unavailable", "catalog_available"]


def test_what_is_held_back_is_said_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = LogRecorder(Ticks())
    for batch in range(3):
        log.record(DeadLettersKept({"stream": "s", "batch": batch}, "main.t", 2, "main.letters", "bad"))

    log.flush()
    log.flush()

    assert [line.rpartition("reason=bad")[2] for line in told(caplog)] == ["", " times=3 total_rows=6"]


def test_a_process_that_ends_says_what_is_held_back() -> None:
    program = """
import logging
from ducklake_core.errors import CatalogUnavailable
from ducklake_core.observe import LOG_RECORDER, CatalogAway
logging.basicConfig(format="%(message)s")
for attempt in range(3):
    LOG_RECORDER.record(CatalogAway("c", attempt, 0.0, 9.0, CatalogUnavailable("away")))
"""
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)  # our own

    assert [line.rpartition("away")[2] for line in ended.stderr.splitlines()] == ['"', '" times=3']


def test_a_pipeline_that_begins_again_and_again_is_spaced_as_a_whole(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = LogRecorder(Ticks())

    log.record(PipelineStarted("p"))
    for _ in range(5):
        log.record(PipelineRestarted("p", OSError("away")))
        log.record(PipelineStarted("p"))

    assert [line.split()[0] for line in caplog.messages] == [
        "pipeline_started",
        "pipeline_restarted",
        "pipeline_started",
    ]


def test_a_log_recorder_pickles_and_has_said_nothing_in_the_other_process(caplog: pytest.LogCaptureFixture) -> None:
    log = LogRecorder(Ticks())
    log.record(BatchFailed(BATCH, OSError("no")))

    pickle.loads(pickle.dumps(log)).record(BatchFailed(BATCH, OSError("no")))  # noqa: S301 # our own

    assert len(caplog.records) == 2
