"""What the demonstration shows while it runs and at its end: a recorder of what happens in the sink and in the lake."""

from __future__ import annotations

import logging
import statistics
import threading
from collections.abc import Callable, Iterator

from ducklake_core import Lake
from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.log_lines import line_of
from ducklake_core.observe import Event, Flushed
from ducklake_sinks.events import BatchRebuilt
from ducklake_sinks.report import BatchReport
from ducklake_streaming.demo.workspace import Workspace

WIDTH = 14


class Display:
    """Counts batches and flushes as they happen; any thread may record, any thread may ask."""

    def __init__(self, show: Callable[[str], None], clock: Clock = SYSTEM_CLOCK) -> None:
        self._show = show
        self._clock = clock
        self._start = clock.seconds()
        self.changed = threading.Condition()
        self.batches: list[BatchReport] = []  # those that had rows
        self.rows_flushed = 0
        self.files = 0

    @property
    def rows(self) -> int:
        return sum(batch.rows for batch in self.batches)

    @property
    def rows_inlined(self) -> int:
        """The rows in the catalog now."""
        return sum(batch.inlined_rows for batch in self.batches) - self.rows_flushed

    def record(self, event: Event) -> None:
        """Take notice of what happened; warnings are shown, but for that of a flush which came between."""
        with self.changed:
            match event:
                case BatchReport():
                    self._add_batch(event)
                case Flushed():
                    self._add_flush(event)
                case _ if event.severity() >= logging.WARNING and not isinstance(event, BatchRebuilt):
                    level = logging.getLevelName(event.severity()).lower()
                    self._show(f"  {level}: {line_of(event.line, event.facts())}")
            self.changed.notify_all()

    def show_header(self) -> None:
        names = ("second", "batches", "rows", "inlined now", "flushed", "files")
        self._show("".join(name.rjust(WIDTH if index else 8) for index, name in enumerate(names)))

    def show_line(self) -> None:
        with self.changed:
            numbers = (len(self.batches), self.rows, self.rows_inlined, self.rows_flushed, self.files)
        second = f"{self._clock.seconds() - self._start:.0f}"
        self._show(second.rjust(8) + "".join(f"{number:,}".rjust(WIDTH) for number in numbers))

    def start_clock(self) -> None:
        self._start = self._clock.seconds()

    def seconds_until(self, second: int) -> float:
        return self._start + second - self._clock.seconds()

    def _add_batch(self, batch: BatchReport) -> None:
        if batch.snapshot_id is None:
            return  # an empty batch
        self.batches.append(batch)
        self.files += batch.files
        if batch.files:
            seconds = batch.seconds["total"]
            self._show(f"          {batch.rows:,} rows -> {_files(batch.files)} of Parquet in {seconds:.1f} s")

    def _add_flush(self, flush: Flushed) -> None:
        if flush.rows == 0:
            return
        self.rows_flushed += flush.rows
        self.files += flush.files
        where, how_long = _files(flush.files), 1000 * flush.seconds
        self._show(f"          flushed {flush.rows:,} inlined rows to {where} of Parquet in {how_long:,.0f} ms")


def summary(display: Display, lake: Lake, table: str, trigger_ms: list[float], asked_ms: int) -> Iterator[str]:
    """Yield what is in the lake, as its catalog says, and how long batches took, which should come every `asked_ms`."""
    found, state = lake.table(table), lake.inlined_state(table)
    files, snapshots = found.files(), lake.snapshots()
    small = [batch for batch in display.batches if batch.inlined_rows]
    yield f"  rows             {found.count():,} in {len(snapshots):,} snapshots, {len(display.batches):,} batches"
    yield f"  inlined rows     {state.rows:,} in the catalog now; {display.rows_flushed:,} were flushed to Parquet"
    yield f"  files            {len(files):,} with {sum(file.record_count for file in files):,} rows"
    if small and trigger_ms:
        commit = 1000 * statistics.median(batch.seconds["commit"] for batch in small)
        sink = 1000 * statistics.median(batch.seconds["total"] for batch in small)
        yield (
            f"  small batches    {statistics.median(trigger_ms):.0f} ms each, by the median: "
            f"{sink:.0f} in the sink, {commit:.0f} of them to commit"
        )
        if statistics.median(trigger_ms) > asked_ms:
            yield f"                   slower than every {asked_ms} ms: this machine is too busy or too small for that"


def where_to_watch(url: str) -> str:
    """Return the line that says where the status page is."""
    return f"Watch it in a browser while it runs: {url}"


def how_to_open(workspace: Workspace, query: str) -> Iterator[str]:
    """Yield what opens the lake in DuckDB."""
    if workspace.start_again is not None:
        yield "PostgreSQL has been stopped. To look into the lake, start it again (Ctrl-C stops it):"
        yield ""
        yield f"  {workspace.start_again}"
        yield ""
    yield "To open the lake, start `duckdb` and paste:"
    yield ""
    for statement in workspace.statements(query):
        yield f"  {statement}"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"
