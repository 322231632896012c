"""Existing Parquet files that become part of a table without being copied: methods of `Lake` and of `Transaction`.

Runs on the driver; no Spark. The files stay where they are, and from then on the lake reads them there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ducklake_core.catalog.file_reader import read_name_mappings
from ducklake_core.errors import InvalidInput, ObjectNotFound
from ducklake_core.files.foreign_fields import AddRules
from ducklake_core.files.foreign_files import read_foreign_file
from ducklake_core.files.storage import Storage
from ducklake_core.model import NameMapping, NewDataFile, Snapshot
from ducklake_core.pending import PendingTable
from ducklake_core.plan.name_mappings import mapping_key
from ducklake_core.spec.paths import hide_password, same_storage

if TYPE_CHECKING:
    from ducklake_core.lake import Lake
    from ducklake_core.transaction import Transaction

READERS = 16  # of footers at a time: an object store takes a while for each


class LakeAddedFiles:
    """Adds existing files in a commit of their own."""

    def add_data_files(
        self,
        table: str,
        paths: str | Sequence[str],
        *,
        allow_missing: bool = False,
        ignore_extra_columns: bool = False,
        hive_partitioning: bool = True,
    ) -> Snapshot | None:
        """Make existing Parquet files part of a table, in one snapshot and without copying them.

        `paths`: files, or folders of which all `.parquet` files count that are below them. Columns are found by name,
        regardless of case; types must be the table's or narrower ones of the same kind. A directory `column=value` of
        the path is the column's value in all rows, unless `hive_partitioning` is False; a partitioned table needs one
        for each key. `allow_missing`: columns that a file lacks read their default or null. `ignore_extra_columns`:
        those that the table lacks are left out. A file that is added twice has its rows twice.

        From then on do not change or remove these files: the lake reads them where they are. Raises SchemaMismatch,
        NotNullViolation, UnreadableFile, ObjectNotFound and InvalidInput, and then nothing is added.
        """
        rules = AddRules(allow_missing, ignore_extra_columns, hive_partitioning)
        with cast("Lake", self).transaction() as tx:
            tx.add_files_by(table, paths, rules)
        return tx.result.snapshot if tx.result else None


class TransactionAddedFiles:
    """Adds existing files in a transaction."""

    _lake: Lake
    _table: Callable[[str], PendingTable]

    def add_data_files(
        self,
        table: str,
        paths: str | Sequence[str],
        *,
        allow_missing: bool = False,
        ignore_extra_columns: bool = False,
        hive_partitioning: bool = True,
    ) -> int:
        """Make existing Parquet files part of a table; see `Lake.add_data_files`. Return how many rows they have."""
        return self.add_files_by(table, paths, AddRules(allow_missing, ignore_extra_columns, hive_partitioning))

    def add_files_by(self, table: str, paths: str | Sequence[str], rules: AddRules) -> int:
        """Do the same by rules."""
        pending, storage = self._table(table), self._lake.storage
        found = find_parquet_files(storage, [paths] if isinstance(paths, str) else paths)
        with ThreadPoolExecutor(READERS) as readers:
            read = list(readers.map(lambda path: read_foreign_file(storage, path, pending.table, rules), found))
        files = self._with_known_mappings(pending, [file for file in read if file is not None])
        cast("Transaction", self).append_files(table, files, lent=True)
        return sum(file.record_count for file in files)

    def _with_known_mappings(self, pending: PendingTable, files: Sequence[NewDataFile]) -> list[NewDataFile]:
        """Let files use the mappings that the table has already."""
        before = pending.before
        known: dict[object, NameMapping] = {}
        if before is not None and files:
            mappings = self._lake.database.ask(lambda session: read_name_mappings(session, before))
            known = {mapping_key(mapping.entries): mapping for mapping in mappings}
        return [replace(f, mapping=f.mapping and known.get(mapping_key(f.mapping.entries), f.mapping)) for f in files]


def find_parquet_files(storage: Storage, paths: Sequence[str]) -> list[str]:
    """Return the full paths of files, and of the Parquet files in folders, those that Spark hides left out."""
    with ThreadPoolExecutor(READERS) as readers:
        return [path for found in readers.map(lambda given: _files_of(storage, given), paths) for path in found]


def _files_of(storage: Storage, given: str) -> list[str]:
    path = full_path(storage, given)
    if storage.has_directory(path):
        return sorted(one.path for one in storage.walk(path) if _is_data(one.path[len(path) :]))
    if not storage.exists(path):
        raise ObjectNotFound(f"there is no file or folder '{hide_password(path)}'", path=path)
    return [path]


def _is_data(path: str) -> bool:
    """Tell whether a path below a folder is that of data: parts that begin with `_` or `.` are of others."""
    hidden = any(part.startswith((".", "_")) and "=" not in part for part in path.split("/") if part)
    return path.lower().endswith((".parquet", ".parq")) and not hidden


def full_path(storage: Storage, given: str) -> str:
    """Return a path as the lake's storage has it; raise InvalidInput for one of another storage."""
    path = same_storage(given)
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    scheme, separator, _ = path.partition("://")
    root, of_root, _ = same_storage(storage.root).partition("://")
    wanted = root if of_root and root != "file" else ""
    if (scheme if separator else "") != wanted:
        place = f"'{wanted}://'" if wanted else "this machine's file system"
        raise InvalidInput(
            f"cannot add '{hide_password(given)}': the lake's files are in {place}, and only those there can be added"
        )
    return path if wanted else str(Path(path).absolute())
