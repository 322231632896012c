"""Upserts and deletes by key, as methods that are part of `Lake` and of `Transaction`. Runs on the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack, cast

import pyarrow as pa

from ducklake_core.arrow_input import to_table
from ducklake_core.catalog.reader import read_head
from ducklake_core.clock import Clock
from ducklake_core.definitions import Definitions
from ducklake_core.errors import CommitConflict, TerminalError
from ducklake_core.model import Column
from ducklake_core.observe import Recorders, Upserted
from ducklake_core.pending import PendingTable
from ducklake_core.pending_definitions import PendingDefinitions
from ducklake_core.plan.staged import CommitInfo, Staged
from ducklake_core.retries import UPSERT_STOP, conflict_retries
from ducklake_core.row_writes import RowWriter
from ducklake_core.spec.names import fold
from ducklake_core.upsert.apply import EventBatch
from ducklake_core.upsert.companion import SCHEMA, check_companion, companion_columns, companion_name, companion_origins
from ducklake_core.upsert.events import is_kept_in_table, key_columns
from ducklake_core.upsert.hidden_changes import (
    check_keys,
    hidden_columns,
    hidden_comments,
    surplus_paths,
    with_initial_defaults,
)
from ducklake_core.upsert.history import HistoryBatch, hidden_name
from ducklake_core.upsert.history_columns import HistoryColumns, refuse_versions
from ducklake_core.upsert.memory import UpsertMemory
from ducklake_core.upsert.report import UpsertReport
from ducklake_core.upsert.rules import UpsertArguments, UpsertRules

if TYPE_CHECKING:
    from ducklake_core.lake import Lake
    from ducklake_core.transaction import Transaction

_PURGE_INTERVAL = timedelta(hours=1)


class LakeKeyedChanges:
    """Changes by key, each a commit: planned again from the new head when another has changed the table meanwhile."""

    clock: Clock
    recorder: Recorders
    _purged_at: dict[str, datetime]
    _definitions: Definitions | None

    def upsert(
        self,
        table: str,
        data: Any,  # Any: whatever Arrow can take
        *,
        keys: str | Sequence[str],
        **arguments: Unpack[UpsertArguments],
    ) -> UpsertReport:
        """Apply events by key in one snapshot: insert what the table lacks, update what differs, delete what is gone.

        Of several events of one key the last one counts: by `sequence_by`, then by the order of the rows. The other
        arguments are described by `ducklake_core.upsert.rules.UpsertRules`. Another's commit to the table meanwhile
        makes it look again, thirty times at most; then it raises CommitConflict. Raises InvalidInput for null keys or
        sequences, and for keys that the table has twice.
        """
        events, memory = to_table(data), UpsertMemory()
        inlined = arguments.get("inline_rows")

        def operation(tx: Transaction) -> UpsertReport:
            return tx.upsert(table, events, keys=keys, memory=memory, **arguments)

        return self._retry(table, operation, lambda limit: events.num_rows <= (limit if inlined is None else inlined))

    def delete_keys(self, table: str, data: Any, *, keys: str | Sequence[str]) -> UpsertReport:  # Any: see upsert
        """Delete the rows that have one of some keys, in one snapshot; other columns of the data are left alone."""
        rows, memory = to_table(data), UpsertMemory()

        def operation(tx: Transaction) -> UpsertReport:
            return tx.delete_keys(table, rows, keys=keys, memory=memory)

        return self._retry(table, operation, lambda limit: rows.num_rows <= limit)

    def _retry(
        self, table: str, operation: Callable[[Transaction], UpsertReport], is_few: Callable[[int], bool]
    ) -> UpsertReport:
        """Change rows; `is_few` tells whether they are inlined by a table that inlines up to so many."""
        begun, lake = self.clock.seconds(), cast("Lake", self)
        report = self._try_after_own(table, operation, is_few)
        if report is None:
            for attempt in conflict_retries(after=lambda _: True, stop=UPSERT_STOP, recorder=self.recorder):
                with attempt:
                    report = _run(lake.transaction(), operation)
                    break
        assert report is not None  # noqa: S101 # the policy re-raises
        self.recorder.record(_told(table, report, self.clock.seconds() - begun))
        return report

    def _try_after_own(
        self, table: str, operation: Callable[[Transaction], UpsertReport], is_few: Callable[[int], bool]
    ) -> UpsertReport | None:
        """Change rows from our own last commit on; None: it is not the head, or may not be, and nothing was done.

        To look at the head is a round trip; what is written to files in vain costs many, and is risked where nobody
        else has committed for some time.
        """
        tx = self._begin_after_own()
        try:
            if tx is None or not (cast("Lake", self).committer.is_alone or is_few(tx.inlined_row_limit(table))):
                return None
            return _run(tx, operation)
        except TerminalError:
            cast("Lake", self).forget()  # perhaps what we remember has changed: look again
            return None

    def _begin_after_own(self) -> Transaction | None:
        """Begin from our own last commit, which saves a round trip; None: it may well not be the head.

        What rests on rows of that base is a conflict when it is not.
        """
        from ducklake_core.transaction import Transaction  # noqa: PLC0415 # which is one of these itself

        head, known = cast("Lake", self).committer.last_head, self._definitions
        base = None if head is None or known is None else known.at(head)
        if base is None:
            return None
        self._definitions = base
        tx = Transaction(cast("Lake", self), base, CommitInfo())
        tx.assumes_base = True
        return tx

    def purges_now(self, companion: str) -> bool:
        """Tell whether old deleted keys shall be forgotten now: the first time, and once an hour."""
        now, last = self.clock.now(), self._purged_at.get(companion)
        if last is not None and now - last < _PURGE_INTERVAL:
            return False
        self._purged_at[companion] = now
        return True


class TransactionKeyedChanges:
    """Changes by key in a transaction; each method returns what it will have done."""

    _lake: Lake
    assumes_base = False  # True: nobody has looked whether its base is the head
    _rows: RowWriter
    _open: Callable[[], PendingDefinitions]
    _table: Callable[[str], PendingTable]
    _all_or_nothing: Callable[[], AbstractContextManager[None]]

    def upsert(
        self,
        table: str,
        data: Any,  # Any: whatever Arrow can take
        *,
        keys: str | Sequence[str],
        memory: UpsertMemory | None = None,
        **arguments: Unpack[UpsertArguments],
    ) -> UpsertReport:
        """Apply events by key; see `Lake.upsert`. The commit raises CommitConflict if another changed the table.

        Whoever then begins again in a new transaction, with the same data, gives the same `memory` again: files that
        were searched are not read a second time.
        """
        rules = UpsertRules.of(keys, **arguments)
        return self._apply(self._table(table), to_table(data), rules, memory or UpsertMemory())

    def delete_keys(
        self, table: str, data: Any, *, keys: str | Sequence[str], memory: UpsertMemory | None = None
    ) -> UpsertReport:
        """Delete the rows that have one of some keys; see `upsert` for `memory`."""
        rules = replace(UpsertRules.of(keys), deletes_all=True, fill_missing=True)
        wanted, rows = {fold(name) for name in rules.keys}, to_table(data)
        rows = rows.select([name for name in rows.column_names if fold(name) in wanted])
        return self._apply(self._table(table), rows, rules, memory or UpsertMemory())

    def inlined_row_limit(self, table: str) -> int:
        """Return up to how many rows a table keeps in the catalog; 0 where it keeps none."""
        pending = self._table(table)
        return pending.options.row_limit if pending.can_inline else 0

    def _refuse_wrong_base(self, staged: Staged) -> None:
        """Raise CommitConflict where rows of an assumed base ask for nothing, and it is not the head.

        Whatever is written is checked by its commit. That nothing is to be written, nobody else would check.
        """
        if not self.assumes_base or not any(t.rests_on_rows and t.writes.is_empty for t in staged.tables):
            return
        base, head = staged.base, self._lake.database.ask(read_head)
        if head != base:
            message = f"rows were looked for at snapshot {base.snapshot_id}, and {head.snapshot_id} has followed"
            raise CommitConflict(f"{message}; look again", base=base.snapshot_id, head=head.snapshot_id)

    def _apply(self, pending: PendingTable, data: pa.Table, rules: UpsertRules, memory: UpsertMemory) -> UpsertReport:
        if rules.keeps_history:
            return self._apply_history(pending, data, rules, memory)
        refuse_versions(pending.table, data)
        batch = EventBatch(self._rows, pending, data, rules, memory, self._lake.clock.now())
        with self._all_or_nothing():

            def find(sequence: tuple[Column, ...], is_needed: bool) -> PendingTable | None:  # noqa: FBT001 # one caller
                return self._companion(pending, rules, sequence, is_needed=is_needed)

            purges = bool(rules.sequence_by) and self._lake.purges_now(companion_name(pending.table))
            return batch.apply(find, purges=purges)

    def _apply_history(
        self, pending: PendingTable, data: pa.Table, rules: UpsertRules, memory: UpsertMemory
    ) -> UpsertReport:
        batch = HistoryBatch(self._rows, pending, data, rules, memory, self._lake.clock.now())
        with self._all_or_nothing():

            def find(is_needed: bool) -> PendingTable | None:  # noqa: FBT001 # one caller
                return self._hidden_changes(HistoryColumns.of(pending.table, rules), is_needed=is_needed)

            return batch.apply(find, purges=self._lake.purges_now(hidden_name(pending.table)))

    def _hidden_changes(self, columns: HistoryColumns, *, is_needed: bool) -> PendingTable | None:
        """Return where changes are kept that no version shows; make it if it is needed and is not there."""
        tx, name = cast("Transaction", self), hidden_name(columns.rows)
        if not tx.has_table(name):
            if not is_needed:
                return None
            comment = f"changes of {columns.rows.qualified_name} that no version shows; see upserts"
            self._create_companion(name, hidden_columns(columns), comment, hidden_comments(columns))
        check_keys(self._table(name).table, columns)
        self._follow_table(name, columns)
        return self._table(name)

    def _follow_table(self, name: str, columns: HistoryColumns) -> None:
        """Give a companion of hidden changes the columns and fields that its table has by now, and no others."""
        tx, before = cast("Transaction", self), self._table(name).table
        if tx.merge_schema(name, hidden_columns(columns)):
            self._open().alter_table(name, lambda t: with_initial_defaults(t, columns, before.next_column_id))
        for path in surplus_paths(before, columns):
            tx.drop_column(name, path)

    def _create_companion(self, name: str, columns: dict[str, str], comment: str, comments: dict[str, str]) -> None:
        """Create a table of our own beside one of a user; `comments` are those of its columns."""
        tx = cast("Transaction", self)
        if not tx.has_schema(SCHEMA):
            tx.create_schema(SCHEMA)
        tx.create_table(name, columns, comment=comment)
        for column, text in comments.items():
            tx.set_comment(name, text, column)

    def _companion(
        self, pending: PendingTable, rules: UpsertRules, sequence: tuple[Column, ...], *, is_needed: bool
    ) -> PendingTable | None:
        """Return the companion of a table; make it if it is needed and is not there."""
        tx, name = cast("Transaction", self), companion_name(pending.table)
        keys, in_table = key_columns(pending.table, rules), is_kept_in_table(pending.table, rules)
        wanted, origins = companion_columns(keys, sequence), companion_origins(keys, sequence, in_table=in_table)
        if not tx.has_table(name):
            if not is_needed:
                return None
            comment = f"events by key of {pending.table.qualified_name}; see upserts"
            self._create_companion(name, wanted, comment, origins)
            return self._table(name)
        found = self._table(name)
        check_companion(found.table, origins, pending.table)
        if not found.added and not found.files:
            tx.merge_schema(name, wanted)
        return self._table(name)


def _run(tx: Transaction, operation: Callable[[Transaction], UpsertReport]) -> UpsertReport:
    with tx:
        report = operation(tx)
    return replace(report, snapshot=tx.result.snapshot if tx.result else None)


def _told(table: str, report: UpsertReport, seconds: float) -> Upserted:
    return Upserted(
        table,
        None if report.snapshot is None else report.snapshot.snapshot_id,
        report.events,
        report.inserted,
        report.updated,
        report.deleted,
        report.unchanged,
        report.late,
        report.files_opened,
        report.files_pruned,
        seconds,
    )
