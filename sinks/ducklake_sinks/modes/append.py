"""Rows are added to their tables; with `ReplaceMode`, those that a table has go in the same snapshot. On the driver."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ducklake_core import Transaction
from ducklake_core.errors import CommitConflict, InvalidInput
from ducklake_sinks.bad_rows import fitting_rows
from ducklake_sinks.destination import Destination
from ducklake_sinks.modes.mode import OnConflict
from ducklake_sinks.options import SinkOptions
from ducklake_sinks.part import Part, Quarantine
from ducklake_sinks.table_setup import TableSetup


class AppendMode:
    """Adds rows; bad ones are kept aside in the same transaction, or refused."""

    def __init__(self, setup: TableSetup, options: SinkOptions, quarantine: Quarantine) -> None:
        self._setup = setup
        self._options = options
        self._quarantine = quarantine
        self._has_files = False
        self._dead_letters: list[Part] = []

    @property
    def dead_letters(self) -> Sequence[Part]:
        return self._dead_letters

    def accept(self, destination: Destination) -> None: ...

    def prepare(self, core: Transaction, parts: Sequence[Part]) -> None:
        self._dead_letters.clear()
        self._has_files = any(part.files for part in parts)
        for part in parts:
            self._setup.prepare(core, part.table, part.schema)

    def stage(self, core: Transaction, part: Part) -> None:
        if part.schema is None:
            self._dead_letters.append(part)
        if part.files:
            core.append_files(part.table, part.files, lent=True)  # the sink removes them, where the batch fails
        if part.rows is not None:
            self._append(core, part, part.rows)

    def on_conflict(self, error: CommitConflict) -> OnConflict:
        """Rows alone can always be staged anew. Files were made for tables as they were, and are never made again.

        They are staged anew after a flush, which leaves a table with the same rows elsewhere; else a conflict is final.
        """
        can_rebuild = not self._has_files or error.facts.get("is_flush", False)
        return OnConflict.REBUILD if can_rebuild else OnConflict.GIVE_UP

    def _append(self, core: Transaction, part: Part, rows: pa.Table) -> None:
        fill = self._options.merge_schema or part.schema is None
        if self._quarantine.is_on and part.schema is not None:
            rows = self._without_bad_rows(core, part.table, rows, fill_missing=fill)
        limits = self._options.inline_rows, self._options.inline_bytes
        core.append(part.table, rows, fill_missing=fill, inline_rows=limits[0], inline_bytes=limits[1])

    def _without_bad_rows(self, core: Transaction, table: str, rows: pa.Table, *, fill_missing: bool) -> pa.Table:
        """Return the rows that the table can hold; the others are staged as dead letters."""
        columns = core.table_version(table).columns
        good, bad = fitting_rows(rows, columns, table, fill_missing=fill_missing, quarantines=True)
        if bad:
            letters = self._quarantine.keep(table, bad)
            self._setup.prepare(core, letters.table, None)
            self.stage(core, letters)
        return good


class ReplaceMode(AppendMode):
    """Adds rows in the place of all that their table has."""

    def __init__(self, setup: TableSetup, options: SinkOptions, quarantine: Quarantine) -> None:
        super().__init__(setup, options, quarantine)
        self._replaced: list[str] = []

    def accept(self, destination: Destination) -> None:
        if destination.table is None:
            raise InvalidInput("a route has no rows to be replaced: name a table, as in sink.replace(df, table)")
        self._replaced.append(destination.table)

    def prepare(self, core: Transaction, parts: Sequence[Part]) -> None:
        super().prepare(core, parts)
        for name in self._replaced:
            if core.has_table(name):
                core.delete(name, None)
