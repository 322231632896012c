"""What happens in a sink besides its batches' ends, as values for the recorder. Made on the driver."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from ducklake_core.log_lines import is_worth_saying
from ducklake_core.observe import Event
from ducklake_core.upsert.report import UpsertReport

CHANGE_OUTCOMES = ("inserted", "updated", "deleted", "truncated", "unchanged", "superseded", "late")
SINK_LOG = logging.getLogger("ducklake_sinks")


class SinkEvent(Event):
    """An event of a sink."""

    __slots__ = ()
    logger = SINK_LOG


@dataclass(frozen=True, slots=True)
class BatchRebuilt(SinkEvent):
    """Another writer has changed a table meanwhile; the batch is planned anew, without being read again.

    To do: nothing, unless it happens all the time: then find who changes the table so often.
    """

    line = "batch_planned_anew"
    level = logging.WARNING
    repeats_by = ("stream",)
    names: Mapping[str, object]
    error: BaseException

    def facts(self) -> Mapping[str, object]:
        return {**self.names, "error": self.error}


@dataclass(frozen=True, slots=True)
class ChangesApplied(SinkEvent):
    """The changes of a batch were applied to a table by key; of how many keys which became what.

    `superseded` and `late` ones changed nothing: a newer change of their key was in the batch, or had come before.
    `files_opened`: how many data files were searched for the keys, `files_pruned`: how many did not have to be.
    """

    line = "changes_applied"
    names: Mapping[str, object]
    table: str
    report: UpsertReport

    def facts(self) -> Mapping[str, object]:
        counts = {name: getattr(self.report, name) for name in (*CHANGE_OUTCOMES, "files_opened", "files_pruned")}
        return {**self.names, "table": self.table, **counts}


@dataclass(frozen=True, slots=True)
class InvalidTextMet(SinkEvent):
    """Rows of a table have texts that are no UTF-8, which Spark's own writer cannot name: another writes them.

    To do: see [bad records](bad-records.md#text-that-is-not-utf-8).
    """

    line = "invalid_text_found"
    level = logging.WARNING
    table: str
    writer: str


@dataclass(frozen=True, slots=True)
class NativeWriterUnused(SinkEvent):
    """Large batches go to an object store by tasks of Python: Spark's own writer would rename files, a copy there.

    It needs no jar, and nothing has to be done. Spark's writer is used where it has
    [committers for S3](object-storage.md#large-batches-by-sparks-own-writer).
    """

    line = "native_writer_unused"
    level = logging.INFO
    repeats_by = ("storage",)
    storage: str


@dataclass(frozen=True, slots=True)
class TableOptionsNotSet(SinkEvent):
    """A table was created, and did not get its options.

    To do: nothing: the sink's next commit sets them.
    """

    line = "table_options_not_set"
    level = logging.WARNING
    table: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class FlushFailed(SinkEvent):
    """A flush beside the stream has failed, for so many times in a row.

    `subject`: the table or the stream, if it is one. Its log line comes with a traceback at first, and then ever less
    often without.

    To do: read the error. Rows stay in the catalog and can be read; the sink tries again every ten seconds.
    """

    line = "flush_failed"
    subject: Mapping[str, object]
    times: int
    error: BaseException

    def severity(self) -> int:
        return logging.ERROR if is_worth_saying(self.times) else logging.DEBUG

    def facts(self) -> Mapping[str, object]:
        return {**self.subject, "times": self.times, "error": self.error}

    def traceback_of(self) -> BaseException | None:
        return self.error if self.times == 1 or self.logger.isEnabledFor(logging.DEBUG) else None


@dataclass(frozen=True, slots=True)
class FlushRecovered(SinkEvent):
    """A table that could not be flushed can be again."""

    line = "flush_recovered"
    table: str
    after_failures: int
