"""Inlined rows of tables go to files, told as maintenance is. Runs on the driver; no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ducklake_core import Lake
from ducklake_core.errors import CatalogUnavailable, CommitConflict, DuckLakeError, ObjectNotFound
from ducklake_core.flush_all import tables_to_flush
from ducklake_core.log_lines import one_line
from ducklake_core.maintenance.report import MaintenanceReport, Operation, Work
from ducklake_core.maintenance.run import record_report
from ducklake_core.spec.names import join_table_name, split_table_name


def flush_tables(lake: Lake, tables: Sequence[str], pause: Callable[[], None]) -> MaintenanceReport:
    """Flush the named tables, without a name all that may be; one that fails keeps no other from its turn.

    It takes no lease: a sink flushes at any time, and two that flush one table find out by their commits. `pause` is
    called after each table.
    """
    started_at, begun = lake.clock.now(), lake.clock.seconds()
    work = tuple(_each(lake, tables, pause))
    report = MaintenanceReport(Operation.FLUSH, started_at, lake.clock.seconds() - begun, work)
    record_report(lake, report)
    return report


def _each(lake: Lake, tables: Sequence[str], pause: Callable[[], None]) -> Iterator[Work]:
    """Yield what was done to each table that had something inlined."""
    is_named = bool(tables)
    for table in tables or tables_to_flush(lake):
        begun = lake.clock.seconds()
        work = _flush(lake, table, is_named=is_named)
        if work is not None:
            yield replace(work, seconds=lake.clock.seconds() - begun)
        pause()


def _flush(lake: Lake, table: str, *, is_named: bool) -> Work | None:
    name = join_table_name(*split_table_name(table))
    try:
        found = lake.flush_inlined(table)
    except CatalogUnavailable:  # it was waited for: each other table would wait as long
        raise
    except ObjectNotFound as error:
        return Work(name, error=one_line(error)) if is_named else None  # else it was dropped or renamed since
    except CommitConflict as error:
        return Work(name, skipped=f"others changed it again and again: {error}")
    except DuckLakeError as error:
        return Work(name, error=one_line(error))
    if not found.snapshots:
        return None
    return Work(
        name,
        files_after=found.data_files + found.delete_files,
        bytes_after=found.size_bytes,
        rows=found.rows,
        snapshot_id=found.snapshots[-1].snapshot_id,
    )
