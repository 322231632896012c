"""What the demonstration shows while it runs and at its end. Learns everything from the sink's own log lines."""

from __future__ import annotations

import logging
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ducklake_core import Lake
from ducklake_streaming.demo.workspace import Workspace

LOGGERS = ("ducklake_sinks", "ducklake_core")
WIDTH = 14


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, as the sink's log line told it."""

    rows: int
    inlined: int
    files: int
    snapshot: int
    commit_ms: float
    total_ms: float


class Display(logging.Handler):
    """Counts batches and flushes as they happen; any thread may log, any thread may ask."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._show = show
        self._start = time.monotonic()
        self.changed = threading.Condition()
        self.batches: list[Batch] = []
        self.rows_flushed = 0
        self.files = 0

    @property
    def rows(self) -> int:
        return sum(batch.rows for batch in self.batches)

    @property
    def rows_inlined(self) -> int:
        """The rows in the catalog now."""
        return sum(batch.inlined for batch in self.batches) - self.rows_flushed

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the log lines of sink and core, and keep them from appearing twice."""
        loggers = [logging.getLogger(name) for name in LOGGERS]
        before = [(logger.level, logger.propagate) for logger in loggers]
        for logger in loggers:
            logger.setLevel(logging.INFO)
            logger.propagate = False
            logger.addHandler(self)
        try:
            yield
        finally:
            for logger, (level, propagate) in zip(loggers, before, strict=True):
                logger.removeHandler(self)
                logger.level, logger.propagate = level, propagate

    def emit(self, record: logging.LogRecord) -> None:
        event, _, _ = record.getMessage().partition(" ")
        facts: dict[str, Any] = record.__dict__  # Any: fields of a log line
        with self.changed:
            if event == "batch_committed":
                self._add_batch(facts)
            elif event == "flushed":
                self._add_flush(facts)
            elif record.levelno >= logging.WARNING and event != "batch_planned_anew":
                self._show(f"  {record.levelname.lower()}: {record.getMessage()}")
            self.changed.notify_all()

    def show_header(self) -> None:
        names = ("second", "batches", "rows", "inlined now", "flushed", "files")
        self._show("".join(name.rjust(WIDTH if index else 8) for index, name in enumerate(names)))

    def show_line(self) -> None:
        with self.changed:
            numbers = (len(self.batches), self.rows, self.rows_inlined, self.rows_flushed, self.files)
        second = f"{time.monotonic() - self._start:.0f}"
        self._show(second.rjust(8) + "".join(f"{number:,}".rjust(WIDTH) for number in numbers))

    def start_clock(self) -> None:
        self._start = time.monotonic()

    def seconds_until(self, second: int) -> float:
        return self._start + second - time.monotonic()

    def _add_batch(self, facts: dict[str, Any]) -> None:  # Any: see emit
        if facts["snapshot"] is None:
            return  # an empty batch
        batch = Batch(**{name: facts[name] for name in Batch.__slots__})
        self.batches.append(batch)
        self.files += batch.files
        if batch.files:
            seconds = batch.total_ms / 1000
            self._show(f"          {batch.rows:,} rows -> {_files(batch.files)} of Parquet in {seconds:.1f} s")

    def _add_flush(self, facts: dict[str, Any]) -> None:  # Any: see emit
        if facts["rows"] == 0:
            return
        self.rows_flushed += facts["rows"]
        self.files += facts["files"]
        where, how_long = _files(facts["files"]), facts["milliseconds"]
        self._show(f"          flushed {facts['rows']:,} inlined rows to {where} of Parquet in {how_long:,.0f} ms")


def summary(display: Display, lake: Lake, table: str, trigger_ms: list[float], asked_ms: int) -> Iterator[str]:
    """Yield what is in the lake, as its catalog says, and how long batches took, which should come every `asked_ms`."""
    found, state = lake.table(table), lake.inlined_state(table)
    files, snapshots = found.files(), lake.snapshots()
    small = [batch for batch in display.batches if batch.inlined]
    yield f"  rows             {found.count():,} in {len(snapshots):,} snapshots, {len(display.batches):,} batches"
    yield f"  inlined rows     {state.rows:,} in the catalog now; {display.rows_flushed:,} were flushed to Parquet"
    yield f"  files            {len(files):,} with {sum(file.record_count for file in files):,} rows"
    if small and trigger_ms:
        commit = statistics.median(batch.commit_ms for batch in small)
        sink = statistics.median(batch.total_ms for batch in small)
        yield (
            f"  small batches    {statistics.median(trigger_ms):.0f} ms each, by the median: "
            f"{sink:.0f} in the sink, {commit:.0f} of them to commit"
        )
        if statistics.median(trigger_ms) > asked_ms:
            yield f"                   slower than every {asked_ms} ms: this machine is too busy or too small for that"


def how_to_open(workspace: Workspace) -> Iterator[str]:
    """Yield what opens the lake in DuckDB."""
    if workspace.start_again is not None:
        yield "PostgreSQL has been stopped. To look into the lake, start it again (Ctrl-C stops it):"
        yield ""
        yield f"  {workspace.start_again}"
        yield ""
    yield "To open the lake, start `duckdb` and paste:"
    yield ""
    for statement in workspace.statements():
        yield f"  {statement}"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"
