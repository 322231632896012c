"""The demonstration shows what it is told as a recorder."""

from ducklake_core.clock import Clock
from ducklake_core.errors import CommitConflict
from ducklake_core.observe import CommitMade, Flushed, TableNotFlushed
from ducklake_core.pending import AddedCount
from ducklake_sinks.events import BatchRebuilt
from ducklake_sinks.report import BatchReport
from ducklake_streaming.demo.display import Display


def batch(inlined: int, files: int, file_rows: int, snapshot: int | None = 1) -> BatchReport:
    added = {"main.t": AddedCount(inlined, 8 * inlined, files, file_rows, 8 * file_rows)}
    return BatchReport({}, snapshot, added, None, {"commit": 0.01, "total": 1.26})


def test_batches_flushes_and_warnings_are_shown_and_counted() -> None:
    shown: list[str] = []
    seconds = iter([0.0, 3.2])
    display = Display(shown.append, Clock(seconds=lambda: next(seconds)))

    for event in (
        batch(10, 0, 0),
        batch(0, 2, 5000),
        batch(0, 0, 0, snapshot=None),
        CommitMade(1, 1, 0.01),
        Flushed("main.t", 4, 1, 900, 3, 0.095),
        BatchRebuilt({}, CommitConflict("a flush came between")),
        TableNotFlushed("main.t", CommitConflict("busy")),
    ):
        display.record(event)
    display.show_line()

    assert (len(display.batches), display.rows, display.rows_inlined, display.files) == (2, 5010, 6, 3)
    assert shown == [
        "          5,000 rows -> 2 files of Parquet in 1.3 s",
        "          flushed 4 inlined rows to 1 file of Parquet in 95 ms",
        '  warning: table_not_flushed table=main.t error="CommitConflict: busy"',
        "       3" + "".join(text.rjust(14) for text in ("2", "5,010", "6", "4", "3")),
    ]
