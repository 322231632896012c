"""What is shown of an operation of maintenance. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ducklake_streaming.overview.fields import Field
from ducklake_streaming.overview.values import shown_count, shown_size, shown_time

if TYPE_CHECKING:
    from ducklake_core import MaintenanceRun


def shown_some(number: int | None) -> str:
    """Return a number, and nothing for 0."""
    return shown_count(number or None)


def shown_some_size(size_bytes: int | None) -> str:
    return shown_size(size_bytes or None)


FIELDS = (
    Field("operation", "operation"),
    Field("table", "table"),
    Field("files_before", "files", shown_some, is_number=True),
    Field("files_after", "after", shown_some, is_number=True),
    Field("bytes_before", "size", shown_some_size, is_number=True),
    Field("bytes_after", "after", shown_some_size, is_number=True),
    Field("rows", "rows", shown_some, is_number=True),
    Field("snapshots", "snapshots", shown_some, is_number=True),
    Field("seconds", "seconds", lambda seconds: f"{seconds:.1f}", is_number=True),
    Field("outcome", "outcome"),
    Field("detail", ""),
)
RUN_FIELDS = (Field("started_at", "time", shown_time), *FIELDS)


def run_row(run: MaintenanceRun) -> dict[str, object]:
    """Return what is shown of an operation on a table, as it was done or as the catalog has recorded it."""
    return {
        "operation": run.operation,
        "table": run.table_name,
        "started_at": run.started_at,
        "seconds": round(run.seconds, 3),
        "outcome": run.outcome,
        "files_before": run.files_before,
        "files_after": run.files_after,
        "bytes_before": run.bytes_before,
        "bytes_after": run.bytes_after,
        "rows": run.row_count,
        "snapshots": run.snapshots,
        "detail": run.detail,
    }
