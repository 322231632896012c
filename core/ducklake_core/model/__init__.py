"""Frozen values: what a DuckLake holds, a module for each noun. No I/O; runs everywhere.

They are imported from here. A snapshot range is `(start, end]`.
"""

from __future__ import annotations

from ducklake_core.model.file import (
    DataFile,
    DeleteFile,
    NameMapping,
    NameMappingEntry,
    NewDataFile,
    NewDeleteFile,
    ReplacedFile,
    RowSpan,
)
from ducklake_core.model.ids import ColumnId, DataFileId, DeleteFileId, SchemaId, SnapshotId, TableId
from ducklake_core.model.results import FlushResult
from ducklake_core.model.snapshot import Snapshot, SnapshotSpan
from ducklake_core.model.stats import ColumnStats, TableColumnStats, TableStats
from ducklake_core.model.stream import Consumer, Epoch, LedgerEntry
from ducklake_core.model.table import (
    Column,
    ColumnsVersion,
    InlinedTable,
    Partitioning,
    PartitionKey,
    SchemaVersion,
    SortKey,
    SortOrder,
    TableVersion,
    nodes_of,
)
from ducklake_core.model.totals import InlinedState, LakeTotals, TableTotals

__all__ = [
    "Column",
    "ColumnId",
    "ColumnStats",
    "ColumnsVersion",
    "Consumer",
    "DataFile",
    "DataFileId",
    "DeleteFile",
    "DeleteFileId",
    "Epoch",
    "FlushResult",
    "InlinedState",
    "InlinedTable",
    "LakeTotals",
    "LedgerEntry",
    "NameMapping",
    "NameMappingEntry",
    "NewDataFile",
    "NewDeleteFile",
    "PartitionKey",
    "Partitioning",
    "ReplacedFile",
    "RowSpan",
    "SchemaId",
    "SchemaVersion",
    "Snapshot",
    "SnapshotId",
    "SnapshotSpan",
    "SortKey",
    "SortOrder",
    "TableColumnStats",
    "TableId",
    "TableStats",
    "TableTotals",
    "TableVersion",
    "nodes_of",
]
