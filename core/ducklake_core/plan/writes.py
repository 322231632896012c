"""What a commit writes, as values in order. `catalog/statements.py` turns each into SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ducklake_core.model import Column, DataFileId, SnapshotId, TableId
from ducklake_core.plan.inlined_rows import InlinedRows


@dataclass(frozen=True, slots=True)
class InsertRows:
    """New rows of one catalog table."""

    table: str
    rows: tuple[Mapping[str, Any], ...]  # Any: catalog columns have many types


@dataclass(frozen=True, slots=True)
class UpdateRows:
    """New values for the rows that match `keys`: `rows` hold both, keys under their own names."""

    table: str
    keys: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]  # Any: see InsertRows


@dataclass(frozen=True, slots=True)
class EndRows:
    """Live rows that end with this snapshot: those that match each row of `keys`."""

    table: str
    keys: tuple[Mapping[str, int], ...]
    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """Rows that vanish: those that match each row of `keys`."""

    table: str
    keys: tuple[Mapping[str, int], ...]


@dataclass(frozen=True, slots=True)
class DeleteAmong:
    """Rows that vanish: those whose `column` is one of many ids."""

    table: str
    column: str
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CreateInlinedTable:
    """A new table for inlined rows of these columns."""

    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True, eq=False)
class InsertInlined:
    """Rows for an inlined table, with their row ids."""

    name: str
    columns: tuple[Column, ...]
    source: InlinedRows
    row_ids: np.ndarray[Any, np.dtype[np.int64]]
    begin: SnapshotId
    stored_names: tuple[str, ...] = ()  # see InlinedTable

    @property
    def row_count(self) -> int:
        return len(self.row_ids)


@dataclass(frozen=True, slots=True)
class EndInlined:
    """Live rows of an inlined table that end with this snapshot."""

    name: str
    row_ids: tuple[int, ...]
    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class InsertInlinedDeletes:
    """Positions of data files that are deleted by catalog rows."""

    table_id: TableId
    positions: tuple[tuple[DataFileId, int], ...]
    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class DeleteInlined:
    """Row versions of an inlined table that leave the catalog: those begun by a snapshot."""

    name: str
    through: SnapshotId


@dataclass(frozen=True, slots=True)
class DeleteInlinedDeletes:
    """Inlined deletes of a table's data files that leave the catalog: those begun by a snapshot."""

    table_id: TableId
    through: SnapshotId


Write: TypeAlias = (
    InsertRows
    | UpdateRows
    | EndRows
    | DeleteRows
    | DeleteAmong
    | CreateInlinedTable
    | InsertInlined
    | EndInlined
    | InsertInlinedDeletes
    | DeleteInlined
    | DeleteInlinedDeletes
)
