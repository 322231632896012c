"""What can be seen only by reading rows: statistics and partition values that leave some out, texts, row ids.

Memory is that of a record batch and, where row ids are looked at, a bit for each row id of one table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.catalog.checks import shown
from ducklake_core.errors import DuckLakeError, TransientError
from ducklake_core.files.parquet_reader import POSITIONS, ROW_IDS, ReadRequest, iterate_data_file
from ducklake_core.files.storage import Storage
from ducklake_core.maintenance.doctor.measure import Measure, leaves_out, narrow_leaves
from ducklake_core.maintenance.doctor.notes import Notes
from ducklake_core.maintenance.doctor.row_ids import RowIdSet
from ducklake_core.model import Column, ColumnId, ColumnStats, DataFile, DataFileId, TableColumnStats, TableVersion
from ducklake_core.plan.file_facts import field_facts, may_be_transformed
from ducklake_core.spec.arrays import plain, single
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.partition import partition_values
from ducklake_core.text_repair import hear_of_invalid_text

_SHARED = 5  # row ids of a record batch that are told
_DISTINCT = 200  # values of a record batch that are looked at one by one


@dataclass(slots=True)
class TableCheck:
    """What is gathered of one table while its rows are read. `row_limit` None: all rows of each file."""

    table: TableVersion
    notes: Notes
    row_limit: int | None
    live: Measure  # of the rows that a reader sees
    row_ids: RowIdSet | None = None
    exact: dict[DataFileId, list[ColumnStats]] = field(default_factory=dict)  # of files whose statistics are narrow
    shared: list[tuple[Any, ...]] = field(default_factory=list)  # row ids: what is told, the SQL that shows it, its ids
    mended: set[ColumnId] = field(default_factory=set)  # leaves of which texts were replaced: their bounds say nothing

    @classmethod
    def of(cls, table: TableVersion, notes: Notes, *, full: bool, row_limit: int | None) -> TableCheck:
        return cls(table, notes, row_limit, Measure(readable(table)), RowIdSet() if full else None)

    def note_texts(self, heard: set[tuple[str, str]], place: str, told: str, sql: str, *ids: int) -> None:
        """Note columns of a file or an inlined table in which texts were replaced."""
        for name in sorted(column for found, column in heard if found == place):
            self.notes.add("invalid-text", self.table.table_id, f"column '{name}' of {told}", sql, *ids)
            self.mended.update(leaf.column_id for c in self.live.columns if c.name == name for leaf in c.leaves())

    def note_row_ids(self, row_ids: np.ndarray, example: str, sql: str, *ids: int) -> None:
        """Keep row ids that another row has."""
        if self.row_ids is None:
            return
        for row_id in self.row_ids.add(row_ids)[:_SHARED]:
            self.shared.append((f"{example} has row id {row_id}, which another row has", sql, *ids))


def readable(table: TableVersion) -> tuple[Column, ...]:
    """Return the columns that others than DuckDB can read, each once: a broken catalog may have two of one name."""
    once = {column.name: column for column in table.columns}.values()
    return tuple(c for c in once if all(node.kind is not Kind.OPAQUE for node in c.walk()))


def check_rows(
    storage: Storage,
    check: TableCheck,
    file: DataFile,
    stats: dict[ColumnId, ColumnStats],
    dropped: np.ndarray,
    *,
    has_row_ids: bool,
) -> None:
    """Read the rows of a file, all of them or the first ones, and note what is not as the catalog says."""
    measure = Measure(check.live.columns)
    try:
        with hear_of_invalid_text() as heard:
            for rows in _read(storage, check, file, with_row_ids=has_row_ids and check.row_ids is not None):
                _look_at(rows, check, file, measure, dropped)
    except TransientError:
        raise
    except (DuckLakeError, ValueError) as error:  # values that a type cannot have, whatever made them
        check.notes.add("unreadable-file", check.table.table_id, str(error), shown.DATA_FILES, file.data_file_id)
        return
    check.note_texts(heard, file.path, f"data file {file.data_file_id}", shown.DATA_FILES, file.data_file_id)
    _check_statistics(check, file, measure, stats)
    _check_partition(check, file, measure)


def _read(storage: Storage, check: TableCheck, file: DataFile, *, with_row_ids: bool) -> Iterator[pa.Table]:
    columns, all_columns = check.live.columns, check.table.columns
    request = ReadRequest(columns, with_row_ids=with_row_ids, with_positions=True, table_columns=all_columns)
    count = 0
    for record_batch in iterate_data_file(storage, file, request):
        rows = pa.Table.from_batches([record_batch])
        yield rows if check.row_limit is None else rows.slice(0, check.row_limit - count)
        count += rows.num_rows
        if check.row_limit is not None and count >= check.row_limit:
            return


def _look_at(rows: pa.Table, check: TableCheck, file: DataFile, measure: Measure, dropped: np.ndarray) -> None:
    measure.add(rows)
    _check_transforms(rows, check, file)
    live = rows.filter(pa.array(~np.isin(rows.column(POSITIONS).to_numpy(), dropped))) if len(dropped) else rows
    check.live.add(live)
    if ROW_IDS in live.column_names:
        row_ids = live.column(ROW_IDS).to_numpy()
        check.note_row_ids(row_ids, f"data file {file.data_file_id}", shown.DATA_FILES, file.data_file_id)


def _check_statistics(check: TableCheck, file: DataFile, measure: Measure, stats: dict[ColumnId, ColumnStats]) -> None:
    found = narrow_leaves(measure, stats, file.record_count)
    narrow = [leaf for leaf in found if leaf.column_id not in check.mended]
    exact = {one.column_id: one for one in measure.stats()}
    for leaf in narrow:
        is_, told = exact[leaf.column_id], stats[leaf.column_id]
        said = f"{shown_stats(is_)}; statistics say {shown_stats(told)}"
        example = f"data file {file.data_file_id}, column '{leaf.name}': {said}"
        check.notes.add(
            "narrow-file-statistics", check.table.table_id, example, shown.FILE_STATISTICS, file.data_file_id
        )
    if narrow and measure.rows == file.record_count:
        check.exact[file.data_file_id] = [exact[leaf.column_id] for leaf in narrow]


def shown_stats(stats: ColumnStats | TableColumnStats) -> str:
    """Return statistics for people."""
    nan = " with NaN" if stats.contains_nan else ""
    nulls = stats.contains_null if isinstance(stats, TableColumnStats) else stats.null_count
    counted = "perhaps" if nulls is None else "with" if nulls else "no"
    return f"from {stats.min_value} to {stats.max_value}{nan}, {counted} nulls"


def _check_partition(check: TableCheck, file: DataFile, measure: Measure) -> None:
    for leaf, measured, nulls in measure.leaves():
        facts = field_facts(leaf, None, check.table, file)
        if leaf.column_id not in check.mended and leaves_out(facts, leaf, measured, nulls):
            _note_partition(check, file, leaf)


def _check_transforms(rows: pa.Table, check: TableCheck, file: DataFile) -> None:
    """Look whether values belong to the bucket or the part of the calendar that the file is of."""
    for column in check.live.columns:
        facts = field_facts(column, None, check.table, file)
        if facts.transformed:
            values = _distinct(rows.column(column.name))
            others = [
                value for text, told in facts.transformed.items() for value in _others(values, column, text, told)
            ]
            if not all(may_be_transformed(facts, column, value) for value in others):
                _note_partition(check, file, column)


def _distinct(values: pa.ChunkedArray) -> pa.Array:
    """Return the values that there are, each once; Arrow finds them in the storage of its own types only."""
    found = pc.unique(plain(single(values))).drop_null()
    is_extension = isinstance(values.type, pa.BaseExtensionType)
    return pa.ExtensionArray.from_storage(values.type, found) if is_extension else found


def _others(values: pa.Array, column: Column, transform: str, told: str) -> pa.Array:
    """Return some of the values that have another partition value, if they were written as the column's type is now."""
    return values.filter(pc.not_equal(partition_values(values, column, transform), told))[:_DISTINCT]


def _note_partition(check: TableCheck, file: DataFile, column: Column) -> None:
    values = ", ".join(repr(value) for value in file.partition_values.values())
    told = f"data file {file.data_file_id} has rows whose '{column.name}' does not belong to {values}"
    check.notes.add("bad-partition-values", check.table.table_id, told, shown.PARTITION_VALUES, file.data_file_id)
