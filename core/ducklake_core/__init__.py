"""DuckLake without Spark: create, write and read lakes on SQLite and PostgreSQL.

from ducklake_core import Lake

lake = Lake.create("sqlite:///lake.sqlite", data_path="lake/")

Exported are `Lake` and what its methods take and return; the errors are in `ducklake_core.errors`.
"""

from ducklake_core.catalog.committer import CommitResult
from ducklake_core.errors import DuckLakeError
from ducklake_core.lake import Lake
from ducklake_core.model import Epoch, FlushResult, InlinedState, LedgerEntry, Snapshot, SortKey
from ducklake_core.table import Table
from ducklake_core.transaction import Transaction

__all__ = [
    "CommitResult",
    "DuckLakeError",
    "Epoch",
    "FlushResult",
    "InlinedState",
    "Lake",
    "LedgerEntry",
    "Snapshot",
    "SortKey",
    "Table",
    "Transaction",
]
