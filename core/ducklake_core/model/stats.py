"""Statistics of columns, as texts of the catalog: of some rows, and of a whole table. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from ducklake_core.model.ids import ColumnId


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Statistics of one leaf column over some rows, as texts of the catalog. None: unknown."""

    column_id: ColumnId
    value_count: int | None = None
    null_count: int | None = None
    min_value: str | None = None
    max_value: str | None = None
    contains_nan: bool | None = None
    size_bytes: int | None = None
    extra_stats: str | None = None


@dataclass(frozen=True, slots=True)
class TableColumnStats:
    """The bounding statistics of one leaf column over all rows a table ever had. None: unknown."""

    column_id: ColumnId
    contains_null: bool | None
    contains_nan: bool | None
    min_value: str | None
    max_value: str | None
    extra_stats: str | None = None


@dataclass(frozen=True, slots=True)
class TableStats:
    """A row of `ducklake_table_stats` and its columns' bounds. `record_count` is gross.

    `is_recovered`: the catalog lacks it although there are rows, so it was computed from what the catalog has.
    """

    record_count: int
    next_row_id: int
    file_size_bytes: int
    columns: dict[ColumnId, TableColumnStats] = field(default_factory=dict)
    is_recovered: bool = False
