"""Rows of a table replaced in one snapshot: by new ones, or by those that it had. Part of `Lake` and of `Transaction`.

Runs on the driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ducklake_core.arrow_input import to_table
from ducklake_core.catalog import reader
from ducklake_core.model import NewDataFile, Snapshot
from ducklake_core.observe import Recorders
from ducklake_core.pending import PendingTable
from ducklake_core.plan.conform import conform
from ducklake_core.plan.filter_arrow import refuse_others
from ducklake_core.plan.predicates import Predicate
from ducklake_core.restore import Restore
from ducklake_core.retries import UPSERT_STOP, conflict_retries
from ducklake_core.row_writes import RowWriter

if TYPE_CHECKING:
    from ducklake_core.lake import Lake
    from ducklake_core.transaction import Transaction


class LakeReplacements(ABC):
    """Replacements that are commits of their own; each returns the snapshot it made, None when nothing changed."""

    recorder: Recorders

    @abstractmethod
    def _in_own_transaction(self, operation: Callable[[Transaction], object]) -> Snapshot | None:
        """Do something in a transaction of its own."""

    def overwrite(
        self,
        table: str,
        data: Any,  # Any: whatever Arrow can take
        where: str | Predicate | None = None,
        *,
        fill_missing: bool = False,
    ) -> Snapshot | None:
        """Put new rows in the place of those that match a filter such as `day = '2026-01-31'`, of all without one.

        The new rows must match the filter, too: else InvalidInput. Rows that another adds meanwhile are replaced as
        well, if they match: it looks again then, thirty times at most.
        """
        rows = to_table(data)  # a stream can be read once, and there may be several attempts
        return self._retry_after_conflict(lambda tx: tx.overwrite(table, rows, where, fill_missing=fill_missing))

    def restore(self, table: str, to: int | datetime) -> Snapshot | None:
        """Make the rows of a table what they were at a snapshot, by its id or a time; see `Transaction.restore`.

        What another does to the table meanwhile is undone as well: it looks again then, thirty times at most.
        """
        return self._retry_after_conflict(lambda tx: tx.restore(table, to))

    def _retry_after_conflict(self, operation: Callable[[Transaction], object]) -> Snapshot | None:
        """Do it again from the new head, whatever came between."""
        for attempt in conflict_retries(after=lambda _: True, stop=UPSERT_STOP, recorder=self.recorder):
            with attempt:
                return self._in_own_transaction(operation)
        raise AssertionError("unreachable")  # the policy re-raises


class TransactionReplacements:
    """Replacements in a transaction."""

    _lake: Lake
    _rows: RowWriter
    _table: Callable[[str], PendingTable]
    _predicate: Callable[[PendingTable, str | Predicate | None], Predicate | None]
    _all_or_nothing: Callable[[], AbstractContextManager[None]]

    def overwrite(
        self,
        table: str,
        data: Any,  # Any: whatever Arrow can take
        where: str | Predicate | None = None,
        *,
        fill_missing: bool = False,
    ) -> int:
        """Put new rows in the place of those that match, of all without a filter; return how many were there.

        Raises InvalidInput for new rows that do not match. Rows of the table that another adds, changes or deletes
        before the commit are a CommitConflict.
        """
        pending = self._table(table)
        predicate, version = self._predicate(pending, where), pending.table
        rows = conform(to_table(data), version.columns, version.qualified_name, fill_missing=fill_missing)
        refuse_others(rows, predicate, version.qualified_name)
        with self._all_or_nothing():
            count = self._rows.delete_replaced(pending, predicate)
            self._rows.append(pending, rows)
        return count

    def delete_replaced(self, table: str, where: str | Predicate | None) -> int:
        """Delete the rows that match, all for None, because others come in their place; return their number.

        As `delete`, and rows that another adds, changes or deletes before the commit are a CommitConflict.
        """
        pending = self._table(table)
        predicate = self._predicate(pending, where)
        with self._all_or_nothing():
            return self._rows.delete_replaced(pending, predicate)

    def delete_partitions(
        self, table: str, rows: pa.Table | None, files: Sequence[NewDataFile] = (), *, fill_missing: bool = False
    ) -> int:
        """Delete all rows of the partitions that some rows, and files to be added, are in; return their number.

        Raises InvalidInput for a table that has no partitions. Rows of the table that another adds, changes or deletes
        before the commit are a CommitConflict.
        """
        pending = self._table(table)
        version = pending.table
        if rows is not None:
            rows = conform(rows, version.columns, version.qualified_name, fill_missing=fill_missing)
        with self._all_or_nothing():
            return self._rows.delete_partitions(pending, rows, files)

    def restore(self, table: str, to: int | datetime) -> int:
        """Make the rows of a table what they were at a snapshot; return how many rows are changed by that.

        Rows that were there and still are keep their ids, and those that come back get theirs again: a feed of changes
        tells of the difference only. The definition of the table stays as it is now. So do columns that it has got
        since, with the value that older rows have in them; what was in columns that are gone does not come back.

        Raises ObjectNotFound for a snapshot that has expired, and where the table was not there yet, NotNullViolation
        for nulls of old where there may be none any more, InvalidInput for rows of DuckDB that share an id.
        """
        pending = self._table(table)
        snapshot = self._lake.database.ask(lambda session: reader.read_snapshot(session, to))
        with self._all_or_nothing():
            return Restore(self._rows, pending, snapshot, self._lake.data_path).apply()
