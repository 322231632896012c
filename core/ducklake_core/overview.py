"""What an operator asks of a whole lake, in a few queries however many tables it has: these methods are part of `Lake`.

They only read: a role that may not write can ask them, and they create nothing. No Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

from ducklake_core.catalog import ledger, stored_tables, totals
from ducklake_core.catalog.database import Database
from ducklake_core.model import LakeTotals, LedgerEntry, TableId

SMALL_FILE_BYTES = 16 * 2**20  # opening one costs about as much as reading it


class Overview:
    """Tells how much there is, and who has written it."""

    database: Database

    def totals(self, small_file_bytes: int = SMALL_FILE_BYTES) -> LakeTotals:
        """Return what the lake has at the head: snapshots, and of each table rows, files, deletes and inlined rows.

        `small_file_bytes`: a file of fewer bytes is small. It reads the inlined rows once, to measure them.
        """
        return totals.read_totals(self.database, small_file_bytes)

    def object_names(self) -> dict[int, str]:
        """Return the last name of each schema, table and view by its id, of those that were dropped as well."""
        return self.database.ask(totals.read_object_names)

    def tables_with_columns(self, names: Sequence[str]) -> set[TableId]:
        """Return the tables that have columns of all these names."""
        return self.database.ask(lambda session: totals.find_tables_with_columns(session, names))

    def catalog_size_bytes(self) -> int:
        """Return how much the catalog takes in its database, with indexes; of SQLite, the file."""
        return self.database.ask(stored_tables.catalog_size_bytes)

    def ledger_entries(self) -> list[LedgerEntry]:
        """Return the last epoch that was committed for each stream, by name; none where no sink has ever written."""
        return self.database.ask(ledger.read_entries)
