"""Flushes some or all tables of a lake, each in a snapshot of its own, and tidies up afterwards. Runs on the driver."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from ducklake_core import faults
from ducklake_core.catalog.inlined_cleanup import drop_superseded
from ducklake_core.errors import CatalogTableMissing, CatalogUnavailable, CommitConflict, DuckLakeError, ObjectNotFound
from ducklake_core.flush import Flusher
from ducklake_core.model import FlushResult, Snapshot
from ducklake_core.observe import Flushed, SupersededTablesKept, TableNotFlushed
from ducklake_core.plan.flush import Flush
from ducklake_core.retries import conflict_retries
from ducklake_core.spec.names import quoted, split_table_name

if TYPE_CHECKING:
    from ducklake_core.lake import Lake


def flush_one(lake: Lake, name: str, memory_bytes: int, keep: timedelta) -> FlushResult:
    """Flush a table; then tidy up the tables of inlined rows that are left empty."""
    return _drop_superseded(lake, keep, _flush_table(lake, name, memory_bytes, FlushResult()))


def flush_all(lake: Lake, memory_bytes: int, keep: timedelta) -> FlushResult:
    """Flush all tables that may be; one that fails does not keep it from the rest. The first error is raised then."""
    result = FlushResult()
    failure: DuckLakeError | None = None
    for name in tables_to_flush(lake):
        try:
            result = _flush_table(lake, name, memory_bytes, result)
        except ObjectNotFound:  # dropped or renamed since
            continue
        except CatalogUnavailable:  # it was waited for: each other table would wait as long
            raise
        except DuckLakeError as error:
            lake.recorder.record(TableNotFlushed(name, error))
            failure = failure or error
    result = _drop_superseded(lake, keep, result)
    if failure is not None:
        raise failure
    return result


def _drop_superseded(lake: Lake, keep: timedelta, result: FlushResult) -> FlushResult:
    """Tidy up. The flush is committed: that a later one has to do this must not look as if it had failed."""
    faults.at("before_drop_superseded")
    try:
        dropped = drop_superseded(lake.database, keep, lake.clock.now())
    except DuckLakeError as error:  # such as of a role that does not own them
        lake.recorder.record(SupersededTablesKept(error))
        return result
    lake.forget()  # definitions that it remembers may name tables that are gone
    return replace(result, dropped_tables=dropped)


def tables_to_flush(lake: Lake) -> list[str]:
    """Return the tables that may have something inlined, but those with the option `auto_compact` false."""
    definitions = lake.definitions()
    tables = [t for t in definitions.tables() if t.inlined_tables]
    return [quoted(t.schema_name, t.name) for t in tables if definitions.options_of(t).auto_compact]


def _flush_table(lake: Lake, name: str, memory_bytes: int, result: FlushResult) -> FlushResult:
    for attempt in conflict_retries(after=lambda _: True, recorder=lake.recorder):
        with attempt:
            return _flush_once(lake, name, memory_bytes, result)
    raise AssertionError("unreachable")  # the policy re-raises


def _flush_once(lake: Lake, name: str, memory_bytes: int, result: FlushResult) -> FlushResult:
    lake.forget()  # another flush may have dropped tables of inlined rows, of which no schema version tells
    definitions = lake.definitions()
    table = definitions.find_table(*split_table_name(name))
    if table is None:
        raise definitions.table_not_found(name)
    options = definitions.options_of(table)
    flusher = Flusher(lake.database, lake.storage, lake.committer, definitions.snapshot, table, options, memory_bytes)
    start = lake.clock.seconds()
    snapshot, flush = _run(flusher)
    if snapshot is None:
        return result
    counts = flush.rows, len(flush.files), flush.size_bytes
    lake.recorder.record(Flushed(table.qualified_name, *counts, snapshot.snapshot_id, lake.clock.seconds() - start))
    return replace(
        result,
        snapshots=(*result.snapshots, snapshot),
        rows=result.rows + flush.rows,
        file_deletes=result.file_deletes + flush.file_deletes,
        data_files=result.data_files + len(flush.files),
        delete_files=result.delete_files + len(flush.delete_files),
        size_bytes=result.size_bytes + flush.size_bytes,
    )


def _run(flusher: Flusher) -> tuple[Snapshot | None, Flush]:
    try:
        return flusher.run()
    except CatalogTableMissing as error:
        raise CommitConflict(
            f"cannot flush '{flusher.table.qualified_name}' at snapshot {flusher.base.snapshot_id}: another flush has "
            "dropped a table of its inlined rows meanwhile; flush again",
            base=flusher.base.snapshot_id,
        ) from error
