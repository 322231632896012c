"""DuckLake without Spark: create, write and read lakes on SQLite and PostgreSQL.

from ducklake_core import Lake

lake = Lake.create("sqlite:///lake.sqlite", data_path="lake/")

Exported are `Lake` and what its methods take and return; the errors are in `ducklake_core.errors`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ducklake_core.catalog.commit import CommitResult
    from ducklake_core.catalog.maintenance_runs import MaintenanceRun
    from ducklake_core.errors import DuckLakeError
    from ducklake_core.feed.table_feed import TableFeed
    from ducklake_core.lake import Lake
    from ducklake_core.maintenance.doctor.finding import Finding
    from ducklake_core.maintenance.report import MaintenanceReport
    from ducklake_core.model import Consumer, Epoch, FlushResult, InlinedState, LedgerEntry, Snapshot, SortKey
    from ducklake_core.read.table import Table
    from ducklake_core.transaction import Transaction
    from ducklake_core.upsert.memory import UpsertMemory
    from ducklake_core.upsert.report import UpsertReport

    __version__: str

__all__ = [
    "CommitResult",
    "Consumer",
    "DuckLakeError",
    "Epoch",
    "Finding",
    "FlushResult",
    "InlinedState",
    "Lake",
    "LedgerEntry",
    "MaintenanceReport",
    "MaintenanceRun",
    "Snapshot",
    "SortKey",
    "Table",
    "TableFeed",
    "Transaction",
    "UpsertMemory",
    "UpsertReport",
]

_MODULES = {
    "CommitResult": "catalog.commit",
    "DuckLakeError": "errors",
    "Finding": "maintenance.doctor.finding",
    "Lake": "lake",
    "MaintenanceReport": "maintenance.report",
    "MaintenanceRun": "catalog.maintenance_runs",
    "Table": "read.table",
    "TableFeed": "feed.table_feed",
    "Transaction": "transaction",
    "UpsertMemory": "upsert.memory",
    "UpsertReport": "upsert.report",
}


def __getattr__(name: str) -> Any:  # Any: fixed by Python
    """Import what is asked for: an executor that reads files needs no driver of a database."""
    if name == "__version__":
        return import_module("ducklake_core.version").package_version()
    if name not in __all__:
        raise AttributeError(name)
    return getattr(import_module(f"ducklake_core.{_MODULES.get(name, 'model')}"), name)
