"""Which dead letters a command means, and in which tables they are. No Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core import Lake
from ducklake_core.files.parquet_reader import ROW_IDS
from ducklake_core.read.slices import read_slice
from ducklake_core.spec.names import fold

LETTER_ID = "id"  # its row id, which stays the same however often its table is flushed
_COLUMNS = frozenset({"stream", "batch_id", "table_name", "reason", "row", "quarantined_at"})


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """What is asked of letters; all of it must hold. `reason`: a pattern of LIKE. `ids`: none means all."""

    reason: str | None = None
    topic: str | None = None
    stream: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    ids: Sequence[int] = ()
    limit: int | None = None
    waiting_only: bool = False  # those that have a record, and were not fed in again yet

    def read(self, lake: Lake, table: str) -> pa.Table:
        """Return the letters of a table that are meant, with their ids, the oldest first."""
        known = {fold(column.name) for column in lake.table(table).version.columns}
        if "offset" not in known and (self.topic is not None or self.waiting_only):
            return read_letters(lake, table, "1 = 0")  # a table of before, without records
        letters = read_letters(lake, table, self._where())
        if self.ids:
            letters = letters.filter(pc.is_in(letters.column(LETTER_ID), value_set=pa.array(self.ids, pa.int64())))
        return letters if self.limit is None else letters.slice(0, self.limit)

    def _where(self) -> str | None:
        texts = {"reason LIKE": self.reason, "topic =": self.topic, "stream =": self.stream}
        times = {"quarantined_at >=": self.since, "quarantined_at <": self.before}
        parts = [f"{test} {_quoted(text)}" for test, text in texts.items() if text is not None]
        parts += [f"{test} {_quoted(at.isoformat())}" for test, at in times.items() if at is not None]
        if self.waiting_only:
            parts += ["replayed_at IS NULL", '"offset" IS NOT NULL']
        return " AND ".join(parts) or None


def read_letters(lake: Lake, table: str, where: str | None) -> pa.Table:
    """Return the letters that match a filter, each with its `id`, the oldest first."""
    found = lake.table(table)
    predicate = None
    if where is not None:
        from ducklake_core.plan.filter_sql import parse_filter  # noqa: PLC0415 # its parser takes long to import

        predicate = parse_filter(where, found.version.columns)
    slices = found.slices(predicate=predicate, with_row_ids=True)
    batches = [record_batch for one in slices for record_batch in read_slice(one)]
    schema = pa.schema([*found.schema, pa.field(ROW_IDS, pa.int64())])
    rows = pa.Table.from_batches(batches) if batches else schema.empty_table()
    names = [LETTER_ID if name == ROW_IDS else name for name in rows.column_names]
    return rows.rename_columns(names).sort_by([("quarantined_at", "ascending"), (LETTER_ID, "ascending")])


def letter_tables(lake: Lake) -> Iterator[str]:
    """Yield the tables of a lake that hold dead letters: those with the columns of one."""
    for table in lake.tables():
        if {fold(column.name) for column in table.version.columns} >= _COLUMNS:
            yield table.name


def _quoted(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))
