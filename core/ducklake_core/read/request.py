"""What a reader of a table wants: which rows, which columns, and what to be told of each row. A value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.files.parquet_reader import POSITIONS, ROW_IDS, ReadRequest
from ducklake_core.model import Column, SnapshotId, TableVersion
from ducklake_core.plan.filter_arrow import to_arrow
from ducklake_core.plan.predicates import Predicate, referenced_columns
from ducklake_core.spec.types import arrow_field

# Where a row is: in this data file at POSITIONS, or in this inlined table, where POSITIONS is its row id. Of the two
# names one is null. As in the reader of files, no column of a table can have a name with a NUL character.
DATA_FILE_IDS = "\0data_file_id"
INLINED_TABLES = "\0inlined_table"
POSITION_FIELDS = (
    pa.field(DATA_FILE_IDS, pa.int64()),
    pa.field(INLINED_TABLES, pa.string()),
    pa.field(POSITIONS, pa.int64()),
)


@dataclass(frozen=True, slots=True)
class RowRequest:
    """Which rows of a table at a snapshot to read, and what of them. Small and frozen: it travels to executors."""

    table: str  # its name
    snapshot: SnapshotId
    columns: tuple[Column, ...]  # those asked for, as the table has them at the snapshot
    predicate: Predicate | None
    table_columns: tuple[Column, ...]
    with_row_ids: bool = False  # adds ROW_IDS
    with_positions: bool = False  # adds POSITION_FIELDS

    @classmethod
    def of(
        cls, table: TableVersion, snapshot: SnapshotId, columns: Sequence[Column], predicate: Predicate | None
    ) -> RowRequest:
        return cls(table.qualified_name, snapshot, tuple(columns), predicate, table.columns)

    @property
    def schema(self) -> pa.Schema:
        """The schema of what is read."""
        row_ids = [pa.field(ROW_IDS, pa.int64())] if self.with_row_ids else []
        positions = POSITION_FIELDS if self.with_positions else ()
        return pa.schema([*map(arrow_field, self.columns), *row_ids, *positions])

    @property
    def needed_columns(self) -> tuple[Column, ...]:
        """The columns to be read: those asked for and those the filter needs, in the table's order."""
        names = {c.name for c in self.columns}
        names |= referenced_columns(self.predicate) if self.predicate else frozenset()
        return tuple(c for c in self.table_columns if c.name in names)

    @property
    def row_filter(self) -> pc.Expression | None:
        return None if self.predicate is None else to_arrow(self.predicate)

    @property
    def of_files(self) -> ReadRequest:
        """What to read of each data file."""
        needed = self.needed_columns
        return ReadRequest(
            needed,
            self.snapshot,
            with_row_ids=self.with_row_ids,
            with_positions=self.with_positions,
            # Where there is no column, Arrow's filter does not say how many rows it keeps.
            with_snapshot_ids=self.predicate is not None and not needed,
            table_columns=self.table_columns,
        )
