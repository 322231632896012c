"""What keeps a lake fast and whole, as methods that are part of `Lake`. Runs on the driver; no Spark is needed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.maintenance_runs import MaintenanceRun, read_runs
from ducklake_core.clock import Clock
from ducklake_core.compact_all import Size, compact_tables, merge_of, rewrite_of
from ducklake_core.files.storage import Storage
from ducklake_core.maintenance.ages import Age
from ducklake_core.maintenance.cleanup import cleanup_old_files, deletion_limit
from ducklake_core.maintenance.doctor.doctor import examine
from ducklake_core.maintenance.doctor.examination import Progress, no_progress
from ducklake_core.maintenance.doctor.finding import Finding
from ducklake_core.maintenance.expire import expire_snapshots, wanted_of
from ducklake_core.maintenance.orphans import delete_orphaned_files
from ducklake_core.maintenance.report import MaintenanceReport, Operation
from ducklake_core.maintenance.run import Pause, no_pause, run_operation
from ducklake_core.observe import Recorders
from ducklake_core.tasks import Runner

if TYPE_CHECKING:
    from ducklake_core.lake import Lake


class MaintenanceCalls:
    """Merges, rewrites, expires, cleans up, and looks for what is broken.

    Each method but `doctor` returns what it did as a `MaintenanceReport`.
    """

    database: Database
    storage: Storage
    data_path: str
    names_data_path: bool = False
    clock: Clock
    recorder: Recorders

    def maintenance_runs(self, limit: int = 100) -> list[MaintenanceRun]:
        """Return what maintenance did, by whatever process, the newest first; of the last 1,000 rows at most."""
        return self.database.ask(lambda session: read_runs(session, limit))

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

    def expire_snapshots(
        self,
        *,
        older_than: Age | None = None,
        keep_last: int | None = None,
        versions: Sequence[int] | None = None,
        dry_run: bool = False,
    ) -> MaintenanceReport:
        """Expire old snapshots: what was visible only in them is gone, and its files are scheduled for deletion.

        `older_than`: those that are older than this age (seconds, a timedelta or a text such as `7d`), by default the
        lake's option `expire_older_than`. `keep_last`: the newest so many stay, whatever their age; where nothing
        tells an age, all others expire. `versions`: these alone, by id. The newest never expires; nor does what a live
        consumer of a change feed has yet to read, or what came after the last epoch of a stream: `held_back` of the
        report says who keeps what. `dry_run`: only look.
        Raises InvalidInput, and ObjectNotFound for versions that are not there.
        """
        wanted = wanted_of(self, older_than, keep_last, versions)
        act = partial(expire_snapshots, self, wanted, dry_run=dry_run)
        report = run_operation(self, Operation.EXPIRE, act, dry_run=dry_run)
        self.forget()  # definitions that it remembers may name tables of inlined rows that are gone
        return report

    def cleanup_old_files(
        self,
        *,
        older_than: Age | None = None,
        cleanup_all: bool = False,
        also_remove: Collection[str] = (),
        dry_run: bool = False,
        pause: Pause = no_pause,
    ) -> MaintenanceReport:
        """Remove files from storage that no snapshot sees any more: expiry, merges and others have scheduled them.

        `older_than`: those that were scheduled before that (seconds, a timedelta or a text such as `1d`), by default
        the lake's option `delete_older_than`, else two days: whoever began to read before may need them so long.
        `cleanup_all`: whenever that was. `also_remove`: full paths of scheduled files outside of the data path, as
        files that were registered where they lay may be; others of these stay. `dry_run`: only look. `pause` is called
        after each thousand files: what it raises ends the work there.
        A file that cannot be removed is tried again by the next run. Raises InvalidInput.
        """
        before = deletion_limit(self, older_than, cleanup_all=cleanup_all)
        act = partial(cleanup_old_files, self, before, also_remove, dry_run=dry_run, pause=pause)
        return run_operation(self, Operation.CLEANUP, act, dry_run=dry_run)

    def delete_orphaned_files(
        self,
        *,
        older_than: Age | None = None,
        cleanup_all: bool = False,
        dry_run: bool = True,
        pause: Pause = no_pause,
    ) -> MaintenanceReport:
        """Remove Parquet files below the data path that the catalog does not know; by default only name them.

        `older_than`: those that were written before that (seconds, a timedelta or a text such as `1d`), by default the
        lake's option `delete_older_than`, else two days. Files of a commit under way are unknown, too: none younger
        than an hour is removed, and an age must be longer than any batch takes. `cleanup_all`: whatever the age, for
        when nobody writes. Files that another lake knows stay if its catalog is in the same PostgreSQL database, or
        in the same directory if it is a SQLite file; lakes elsewhere must not share the data path. `pause` is called
        after each thousand files that are listed or removed. InvalidInput.
        """
        before = deletion_limit(self, older_than, cleanup_all=cleanup_all)
        act = partial(delete_orphaned_files, self, before, dry_run=dry_run, pause=pause)
        return run_operation(self, Operation.ORPHANS, act, dry_run=dry_run)

    def doctor(self, *, full: bool = False, repair: bool = False, progress: Progress = no_progress) -> list[Finding]:
        """Look the lake over, and return what is broken in it, the worst first: nothing for a healthy lake.

        It asks the catalog for all that the catalog can tell, looks for 1,000 files and opens 64 of them: the newest,
        and others that are the same each time. `full`: every file and every row, inlined ones as well. `repair` mends
        counters and statistics in one snapshot that changes no row, which loses nothing; findings say what was done.
        `progress` is told what is done now, and of how many files already.
        """
        return examine(self.database, self.storage, self.data_path, self.clock, progress, full=full, mend=repair)

    if TYPE_CHECKING:

        def forget(self) -> None: ...
