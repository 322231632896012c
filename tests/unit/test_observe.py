"""What happens goes to recorders; the log is one of them, and says each event in one line."""

import logging
import pickle

import pytest

from ducklake_core.errors import CatalogUnavailable, ContentionError, InvalidInput
from ducklake_core.observe import (
    LOG_RECORDER,
    NO_RECORDER,
    CatalogAway,
    CatalogBack,
    CommitDoubted,
    CommitMade,
    CommitRetried,
    ConflictRetried,
    EpochReplayed,
    Event,
    FeedRead,
    Flushed,
    MaintenanceDone,
    MaintenanceNotRecorded,
    Recorders,
    Resolution,
    Retried,
    RowsNotInlined,
    SnapshotsLost,
    SupersededTablesKept,
    TableNotFlushed,
    TableNotMaintained,
)
from ducklake_core.pending import AddedCount
from ducklake_sinks.events import BatchRebuilt, FlushFailed, FlushRecovered, InvalidTextMet, TableOptionsNotSet
from ducklake_sinks.report import BatchFailed, BatchReplayed, BatchReport, BatchStopped, DeadLettersKept

BATCH = {"stream": "s", "batch": 3}
SECONDS = {"collect": 0.01, "commit": 0.0204, "total": 0.05}
ADDED = {"main.t": AddedCount(inlined_rows=2, inlined_bytes=16, files=1, file_rows=5, file_bytes=90)}
NO = InvalidInput("no")

LINES: list[tuple[Event, int, str]] = [
    (CommitMade(7, 2, 0.5), logging.DEBUG, "commit_made snapshot_id=7 attempts=2 seconds=0.5"),
    (Retried("c", 1, ContentionError("lost")), logging.DEBUG, "retried catalog=c attempt=1 cause="),
    (CommitRetried("c", 1, ContentionError("lost")), logging.DEBUG, "commit_retried catalog=c attempt=1 cause="),
    (ConflictRetried(2, NO), logging.DEBUG, 'conflict_retried attempt=2 cause="InvalidInput: no"'),
    (CommitDoubted(Resolution.COMMITTED, 2), logging.WARNING, "commit_doubted resolution=committed attempts=2"),
    (EpochReplayed("s", 3), logging.INFO, "epoch_replayed stream=s batch=3"),
    (RowsNotInlined(4, NO), logging.WARNING, 'rows_not_inlined rows=4 reason="InvalidInput: no"'),
    (
        Flushed("main.t", 5, 1, 900, 8, 0.01234),
        logging.INFO,
        "flushed table=main.t rows=5 files=1 bytes=900 snapshot=8 milliseconds=12.3",
    ),
    (TableNotFlushed("main.t", NO), logging.WARNING, 'table_not_flushed table=main.t error="InvalidInput: no"'),
    (SupersededTablesKept(NO), logging.WARNING, 'superseded_tables_not_dropped error="InvalidInput: no"'),
    (
        MaintenanceDone("merge", "main.t", 10, 1, 0, 0, 0, 7, 0.01234),
        logging.INFO,
        "maintenance_done operation=merge table=main.t files_before=10 files_after=1 snapshot_id=7 milliseconds=12.3",
    ),
    (
        MaintenanceDone("expire", None, 0, 0, 0, 0, 0, None, 0.5, 9),
        logging.INFO,
        "maintenance_done operation=expire snapshots=9 milliseconds=500.0",
    ),
    (
        TableNotMaintained("merge", "main.t", "no"),
        logging.WARNING,
        "table_not_maintained operation=merge table=main.t error=no",
    ),
    (
        MaintenanceNotRecorded("merge", NO),
        logging.WARNING,
        'maintenance_not_recorded operation=merge error="InvalidInput: no"',
    ),
    (
        CatalogAway("c", 2, 1.26, 120.0, CatalogUnavailable("away")),
        logging.WARNING,
        'catalog_unavailable catalog=c attempt=2 seconds=1.3 timeout=120.0 reason="CatalogUnavailable: away"',
    ),
    (CatalogBack("c", 3, 2.0), logging.WARNING, "catalog_available catalog=c attempt=3 seconds=2.0"),
    (FeedRead("main.t", 1, 4, 10, 0.5), logging.DEBUG, "changes_read table=main.t start=1 end=4 rows=10 seconds=0.5"),
    (
        SnapshotsLost("main.t", 2, 4),
        logging.WARNING,
        "changes_lost table=main.t first_snapshot=2 last_snapshot=4 reason=expired",
    ),
    (
        BatchReport(BATCH, 9, ADDED, None, SECONDS),
        logging.INFO,
        "batch_committed stream=s batch=3 rows=7 inlined=2 files=1 snapshot=9 collect_ms=10.0 commit_ms=20.4 total_ms=",
    ),
    (
        BatchReport(BATCH, 9, ADDED, 2, {"total": 0.05}),
        logging.INFO,
        "batch_committed stream=s batch=3 rows=5 dead_letters=2 inlined=2 files=1 snapshot=9 total_ms=50.0",
    ),
    (
        BatchReplayed(BATCH, None, {}, None, {"total": 0.05}),
        logging.INFO,
        "batch_replayed stream=s batch=3 rows=0 inlined=0 files=0 snapshot=None total_ms=50.0",
    ),
    (BatchReplayed(BATCH, None, {}, None, {}, is_by_hand=True), logging.WARNING, "batch_replayed stream=s batch=3"),
    (BatchStopped(BATCH, NO), logging.INFO, 'batch_stopped stream=s batch=3 error="InvalidInput: no"'),
    (BatchFailed(BATCH, NO), logging.ERROR, 'batch_failed stream=s batch=3 error="InvalidInput: no"'),
    (BatchRebuilt(BATCH, NO), logging.WARNING, 'batch_planned_anew stream=s batch=3 error="InvalidInput: no"'),
    (
        DeadLettersKept(BATCH, "main.t", 2, "main.t_dead_letters", "bad"),
        logging.WARNING,
        "rows_quarantined stream=s batch=3 table=main.t rows=2 kept_in=main.t_dead_letters reason=bad",
    ),
    (
        DeadLettersKept(BATCH, None, 2, "main.t_dead_letters", None),
        logging.WARNING,
        "rows_quarantined stream=s batch=3 rows=2 kept_in=main.t_dead_letters",
    ),
    (InvalidTextMet("main.t", "tasks"), logging.WARNING, "invalid_text_found table=main.t writer=tasks"),
    (TableOptionsNotSet("main.t", NO), logging.WARNING, 'table_options_not_set table=main.t error="InvalidInput: no"'),
    (
        FlushFailed({"table": "main.t"}, 2, NO),
        logging.ERROR,
        'flush_failed table=main.t times=2 error="InvalidInput: no"',
    ),
    (FlushFailed({}, 3, NO), logging.DEBUG, 'flush_failed times=3 error="InvalidInput: no"'),
    (FlushRecovered("main.t", 4), logging.INFO, "flush_recovered table=main.t after_failures=4"),
]


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
        'recorder_failed recorder=Deaf event=commit_made times=1 error="OSError: no room"',
        'recorder_failed recorder=Deaf event=commit_made times=2 error="OSError: no room"',
    ]


def test_an_interrupt_in_a_recorder_is_no_failure_of_it() -> None:
    class Interrupted:
        def record(self, _: Event) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Recorders(Interrupted()).record(CommitMade(7, 1, 0.5))
