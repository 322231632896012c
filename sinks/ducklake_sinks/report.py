"""What the sink says of a batch, one line for each thing that happened. Runs on the driver."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ducklake_core import CommitResult
from ducklake_core.log_lines import log_event, log_with_traceback
from ducklake_core.pending import AddedCount
from ducklake_sinks.large_batch import Part
from ducklake_sinks.query import BY_HAND, Query
from ducklake_sinks.runtime import EpochStart

log = logging.getLogger("ducklake_sinks")

_LONGEST_REASON = 200


def log_batch(
    start: EpochStart,
    result: CommitResult,
    added: Mapping[str, AddedCount],
    dead: Sequence[Part] | None,
    milliseconds: Mapping[str, float],
) -> None:
    """Say what became of a batch. `dead`: its dead letters, None when bad rows are refused; `rows` are the others."""
    dead_letters = sum(part.row_count for part in dead or ())
    facts: dict[str, object] = {
        **start.names,
        "rows": sum(one.inlined_rows + one.file_rows for one in added.values()) - dead_letters,
        **({} if dead is None else {"dead_letters": dead_letters}),
        "inlined": sum(one.inlined_rows for one in added.values()),
        "files": sum(one.files for one in added.values()),
        "snapshot": result.snapshot.snapshot_id if result.snapshot else None,
        **{f"{phase}_ms": round(value, 1) for phase, value in milliseconds.items()},
    }
    if not result.replayed:
        log_event(log, logging.INFO, "batch_committed", **facts)
    elif start.query.query_id != BY_HAND:
        log_event(log, logging.INFO, "batch_replayed", **facts)
    else:
        hint = "nothing was written: this batch is committed already; sink.append(df) writes without a number"
        log_event(log, logging.WARNING, "batch_replayed", **facts, hint=hint)


def log_dead_letters(start: EpochStart, dead: Sequence[Part]) -> None:
    """Warn of rows that were kept aside, for each table that they were meant for, with the first reason."""
    for part in dead:
        for table, count, reason in _counted(part):
            facts = {"table": table, "rows": count, "kept_in": part.table, "reason": reason}
            told = {name: value for name, value in facts.items() if value is not None}
            log_event(log, logging.WARNING, "rows_quarantined", **start.names, **told)


def _counted(part: Part) -> Iterator[tuple[str | None, int, str | None]]:
    """Yield the tables that dead letters were meant for, how many, and why the first; of those in files the number."""
    if part.rows is not None:
        tables, reasons = (part.rows.column(name).to_pylist() for name in ("table_name", "reason"))
        for table, count in Counter(tables).items():
            yield table, count, reasons[tables.index(table)][:_LONGEST_REASON]
    in_files = sum(file.record_count for file in part.files)
    if in_files:  # written by executors, which return no rows where there are many
        yield None, in_files, None


def log_failure(query: Query | None, names: Mapping[str, object], error: BaseException) -> None:
    """Say in one line that a batch has failed, before Spark says it in pages; one that was stopped has not.

    A stream without a name goes by the id of its query, where that is known.
    """
    if query is not None and query.query_id != BY_HAND and "stream" in names and names["stream"] is None:
        names = {**names, "stream": query.query_id}
    names = {name: value for name, value in names.items() if value is not None}
    if query is not None and not query.is_active():
        log_event(log, logging.INFO, "batch_stopped", **names, error=error)
        return
    if log.isEnabledFor(logging.DEBUG):
        log_with_traceback(log, logging.ERROR, "batch_failed", error, **names)
    else:
        log_event(log, logging.ERROR, "batch_failed", **names, error=error)
