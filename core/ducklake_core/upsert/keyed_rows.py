"""All rows of a pending table that have a key of a batch, several of one key, with their values. Runs on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ducklake_core.model import Column
from ducklake_core.pending import PendingTable
from ducklake_core.plan.conform import conform
from ducklake_core.row_writes import RowWriter
from ducklake_core.spec.types import arrow_schema
from ducklake_core.upsert.key_index import KeyIndex
from ducklake_core.upsert.memory import SearchMemory
from ducklake_core.upsert.old_values import OldValues
from ducklake_core.upsert.row_changes import RowChanges
from ducklake_core.upsert.rules import UpsertRules
from ducklake_core.upsert.search import Found, Search
from ducklake_core.upsert.search_tasks import ReadRows


@dataclass(frozen=True, slots=True, eq=False)
class KeyedRows:
    """Rows that were found; `numbers` are those of their keys, and `identity` the columns that tell them apart."""

    writer: RowWriter
    pending: PendingTable
    identity: tuple[Column, ...]
    found: Found
    numbers: np.ndarray
    row_ids: np.ndarray
    values: pa.Table

    @classmethod
    def find(
        cls,
        writer: RowWriter,
        pending: PendingTable,
        keys: tuple[Column, ...],
        start: Column,
        index: KeyIndex,
        memory: SearchMemory,
    ) -> KeyedRows:
        """Look for the rows of some keys; a key has no two rows of the same `start`."""
        columns = pending.table.columns
        found = Search(writer, pending, keys, index, memory, afterwards=ReadRows(columns)).run()
        old = OldValues(writer.storage, columns, writer.base.snapshot_id, memory)
        values = [_no_rows(columns), *(old.read(hits, columns) for hits in found.hits)]
        row_ids = np.concatenate([np.empty(0, np.int64), *(hits.row_ids for hits in found.hits)])
        joined = pa.concat_tables(values, promote_options="default")
        return cls(writer, pending, (*keys, start), found, found.numbers, row_ids, joined)

    def change(self, ended: Sequence[int], new: pa.Table, row_ids: np.ndarray, rules: UpsertRules) -> None:
        """End some of the rows, by their places, and add others: with the ids of old rows, or NEW_ROW."""
        changes = RowChanges(self.writer, self.pending, rules)
        is_ended = np.zeros(len(self.numbers), bool)
        is_ended[np.asarray(ended, np.int64)] = True
        ends = np.cumsum([len(hits.numbers) for hits in self.found.hits])[:-1]
        own = []
        for hits, mask in zip(self.found.hits, np.split(is_ended, ends), strict=False):
            changes.end(hits.only(mask))
            own += [hits.values.filter(pa.array(mask))] if hits.part is None else []
        changes.end_in(self.found.committed)
        self._end_own(own)
        table = self.pending.table
        if new.num_rows:
            changes.add(conform(new, table.columns, table.qualified_name), row_ids)
        changes.write()

    def _end_own(self, ended: Sequence[pa.Table]) -> None:
        """End rows that the transaction itself has added, which have no position yet."""
        if not any(rows.num_rows for rows in ended):
            return
        names = [c.name for c in self.identity]
        gone = KeyIndex(pa.concat_tables(ended, promote_options="default").select(names).columns)
        self.writer.change_own(self.pending, lambda rows: gone.find(rows.select(names).columns)[0], None)


def _no_rows(columns: Sequence[Column]) -> pa.Table:
    """Return an empty table, also where `Schema.empty_table` cannot: for lists of extension types."""
    schema = arrow_schema(columns)
    return pa.Table.from_arrays([pa.nulls(0, type_) for type_ in schema.types], schema=schema)
