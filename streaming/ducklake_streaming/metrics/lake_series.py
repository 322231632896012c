"""The series of tables, snapshots, consumers and maintenance, made of what a poll has read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.registry import Labels, Series

if TYPE_CHECKING:
    from ducklake_core import MaintenanceRun
    from ducklake_core.model import Consumer, LakeTotals, TableTotals

Found: TypeAlias = dict[m.Metric, Series]

FAILED = "failed"  # the outcome of a run; all others are of runs that have not failed
_MAX_CONSUMERS = 100


def table_series(tables: Iterable[TableTotals], label: Callable[[str], str], now: datetime) -> Found:
    """Return the gauges of tables; those that share a label are added up, and of ages the highest counts."""
    found: dict[m.Metric, dict[Labels, float]] = {metric: {} for metric in (*_OF_TABLE, m.TABLE_INLINED_AGE)}
    for table in tables:
        labels = (label(table.name),)
        for metric, value_of in _OF_TABLE.items():
            found[metric][labels] = found[metric].get(labels, 0.0) + value_of(table)
        ages = found[m.TABLE_INLINED_AGE]
        ages[labels] = max(ages.get(labels, 0.0), _age(table.inlined.oldest, now))
    return dict(found)


_OF_TABLE: dict[m.Metric, Callable[[TableTotals], float]] = {
    m.TABLE_ROWS: lambda table: table.rows,
    m.TABLE_DATA_FILES: lambda table: table.files,
    m.TABLE_SMALL_FILES: lambda table: table.small_files,
    m.TABLE_FILE_BYTES: lambda table: table.file_bytes,
    m.TABLE_DELETE_FILES: lambda table: table.delete_files,
    m.TABLE_DELETED_ROWS: lambda table: table.deleted_rows,
    m.TABLE_INLINED_ROWS: lambda table: table.inlined.rows,
    m.TABLE_INLINED_BYTES: lambda table: table.inlined.size_bytes,
}


def snapshot_series(totals: LakeTotals) -> Found:
    return {
        m.CATALOG_SNAPSHOTS: {(): totals.snapshots},
        m.CATALOG_OLDEST_SNAPSHOT: {(): totals.oldest.snapshot_time.timestamp()},
        m.CATALOG_LAST_SNAPSHOT: {(): totals.head.snapshot_time.timestamp()},
    }


def consumer_series(
    consumers: Sequence[Consumer], unread_since: Mapping[str, datetime], totals: LakeTotals, now: datetime
) -> Found:
    """Return the gauges of consumers, of the slowest if there are very many.

    The margin ends at the first snapshot that the consumer has not read, or now where it has read all. It is 0 when
    snapshots have expired that it has not read.
    """
    behind, seconds, margin = dict[Labels, float](), dict[Labels, float](), dict[Labels, float]()
    for one in sorted(consumers, key=lambda one: one.snapshot_id)[:_MAX_CONSUMERS]:
        unread = unread_since.get(one.name)
        is_lost = one.snapshot_id + 1 < totals.oldest.snapshot_id
        left = (unread or now) - totals.oldest.snapshot_time
        behind[(one.name,)] = max(0, totals.head.snapshot_id - one.snapshot_id)
        seconds[(one.name,)] = _age(unread, now)
        margin[(one.name,)] = 0.0 if is_lost else max(0.0, left.total_seconds())
    return {m.SOURCE_BEHIND_SNAPSHOTS: behind, m.SOURCE_BEHIND_SECONDS: seconds, m.SOURCE_EXPIRY_MARGIN: margin}


def run_times(runs: Iterable[MaintenanceRun]) -> Found:
    """Return when each operation was last run, and last without a failure."""
    last, success = dict[Labels, float](), dict[Labels, float]()
    for run in runs_by_id(runs).values():
        labels, time = (run[0].operation,), run[0].started_at.timestamp()
        last[labels] = max(last.get(labels, 0.0), time)
        if not has_failed(run):
            success[labels] = max(success.get(labels, 0.0), time)
    return {m.MAINTENANCE_LAST_RUN: last, m.MAINTENANCE_LAST_SUCCESS: success}


def runs_by_id(runs: Iterable[MaintenanceRun]) -> dict[str, list[MaintenanceRun]]:
    """Return what was recorded of each run: one row for each table that it has worked on."""
    found: dict[str, list[MaintenanceRun]] = {}
    for run in runs:
        found.setdefault(run.run_id, []).append(run)
    return found


def has_failed(run: Sequence[MaintenanceRun]) -> bool:
    return any(row.outcome == FAILED for row in run)


def _age(time: datetime | None, now: datetime) -> float:
    return 0.0 if time is None else max(0.0, (now - time).total_seconds())
