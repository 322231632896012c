"""What keeps a lake fast and whole, as methods that are part of `Lake`. Runs on the driver; no Spark is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ducklake_core.catalog.database import Database
from ducklake_core.clock import Clock
from ducklake_core.compact_all import Size, compact_tables, merge_of, rewrite_of
from ducklake_core.files.storage import Storage
from ducklake_core.maintenance.compaction import Runner
from ducklake_core.maintenance.report import MaintenanceReport
from ducklake_core.observe import Recorders

if TYPE_CHECKING:
    from ducklake_core.lake import Lake


class MaintenanceCalls:
    """Merges, rewrites, expires and cleans up. Each method returns what it did as a `MaintenanceReport`."""

    database: Database
    storage: Storage
    data_path: str
    clock: Clock
    recorder: Recorders

    def merge_adjacent_files(
        self,
        table: str | None = None,
        *,
        schema: str | None = None,
        min_file_size: Size | None = None,
        max_file_size: Size | None = None,
        max_compacted_files: int | None = None,
        runner: Runner | None = None,
    ) -> MaintenanceReport:
        """Write small data files of a table together: one snapshot, in which no reader sees a difference.

        None: of every table, or every one of a `schema`, but those with the option `auto_compact` false; one snapshot
        each. Files below the option `target_file_size` are merged, partition by partition, those that were written
        under the same columns and have no deleted rows; a large one only when smaller ones together have half its
        size. `min_file_size` and `max_file_size` leave out smaller files and those of that size, `max_compacted_files`
        bounds how many files are made of each table. `runner` does the tasks, by default two at a time in this process.
        Raises ObjectNotFound and InvalidInput; what fails for a table is in its work.
        """
        method = merge_of(min_file_size, max_file_size, max_compacted_files)
        return compact_tables(cast("Lake", self), method, table, schema, runner)

    def rewrite_data_files(
        self,
        table: str | None = None,
        *,
        schema: str | None = None,
        delete_threshold: float | None = None,
        runner: Runner | None = None,
    ) -> MaintenanceReport:
        """Write files with many deleted rows without them; older snapshots still read the old ones.

        `delete_threshold`: which share of a file's rows must be deleted; by default what the option
        `rewrite_delete_threshold` says, 0.95 if it is not set, and then also where there are many small files with
        fewer deletes, which no merge takes. `table`, `schema`, `runner` and errors are those of `merge_adjacent_files`.
        """
        return compact_tables(cast("Lake", self), rewrite_of(delete_threshold), table, schema, runner)
