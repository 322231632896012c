"""What can be seen of files without reading their rows: whether they are there, their size, footer and deletes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ducklake_core.catalog.checks import shown
from ducklake_core.catalog.checks.listing import RegisteredFile, find_registered
from ducklake_core.catalog.database import Database
from ducklake_core.errors import UnreadableFile
from ducklake_core.files.delete_files import read_deletes
from ducklake_core.files.footers import Footer, read_footer
from ducklake_core.files.storage import Storage
from ducklake_core.maintenance.doctor.notes import Notes
from ducklake_core.model import DataFile, DeleteFile, TableId
from ducklake_core.spec.paths import hide_password

_LOOKUPS_AT_ONCE = 16  # an object store takes tens of milliseconds for each


def look_up(database: Database, storage: Storage, files: Sequence[RegisteredFile], notes: Notes) -> None:
    """Note files that are not there, or have another size; not those that a cleanup has removed meanwhile."""
    with ThreadPoolExecutor(_LOOKUPS_AT_ONCE) as pool:
        found = list(pool.map(lambda file: _trouble_of(storage, file), files))
    bad = [(file, trouble) for file, trouble in zip(files, found, strict=True) if trouble is not None]
    known = database.ask(lambda session: find_registered(session, [file.file_id for file, _ in bad])) if bad else set()
    for file, (code, example) in bad:
        if file.file_id in known:
            notes.add(code, file.table_id, example, shown.FILES, file.file_id)


def _trouble_of(storage: Storage, file: RegisteredFile) -> tuple[str, str] | None:
    try:
        size = storage.find_size(file.path)
    except UnreadableFile as error:
        return "unreadable-file", f"file {file.file_id}: {error}"
    if size is None:
        return "missing-file", f"file {file.file_id} '{hide_password(file.path)}'"
    if file.size_bytes is not None and size != file.size_bytes:
        told = f"has {size} bytes, the catalog says {file.size_bytes}"
        return "wrong-file-size", f"file {file.file_id} '{hide_password(file.path)}' {told}"
    return None


def check_footer(
    storage: Storage, table_id: TableId, file: DataFile, footer_size: int | None, notes: Notes
) -> Footer | None:
    """Note what a footer says otherwise than the catalog; return it, None where the rows cannot be read."""
    try:
        footer = read_footer(storage, file)
    except UnreadableFile as error:
        if file.encryption_key is None and _is_there(
            storage, file.path
        ):  # pyarrow cannot open what DuckDB has encrypted
            notes.add("unreadable-file", table_id, str(error), shown.DATA_FILES, file.data_file_id)
        return None
    for code, told in _troubles(file, footer, footer_size):
        notes.add(code, table_id, f"data file {file.data_file_id} {told}", shown.DATA_FILES, file.data_file_id)
    return footer if footer.record_count == file.record_count else None


def _is_there(storage: Storage, path: str) -> bool:
    """Tell whether a file that cannot be read is there: one that is not is found by its name."""
    try:
        return storage.exists(path)
    except UnreadableFile:
        return True


def _troubles(file: DataFile, footer: Footer, footer_size: int | None) -> list[tuple[str, str]]:
    found = []
    if footer.record_count != file.record_count:
        found.append(("wrong-record-count", f"has {footer.record_count} rows, the catalog says {file.record_count}"))
    if footer_size is not None and footer_size != footer.footer_bytes and file.encryption_key is None:
        told = f"has a footer of {footer.footer_bytes} bytes, the catalog says {footer_size}"
        found.append(("wrong-footer-size", told))
    if not footer.has_row_ids and file.row_id_start is None:
        found.append(("missing-row-ids", "has none inside, and no row_id_start"))
    if file.partial_max is not None and file.partial_max > file.begin_snapshot and not footer.has_snapshot_ids:
        found.append(("missing-snapshot-ids", f"is of snapshots {file.begin_snapshot} to {file.partial_max}"))
    return found


def check_deletes(storage: Storage, table_id: TableId, file: DataFile, notes: Notes) -> np.ndarray | None:
    """Note what is wrong with the delete files of a data file; return all deleted positions, None if unreadable."""
    found = [np.asarray(file.inlined_deletes, np.int64)]
    for delete_file in file.delete_files:
        try:
            positions, _ = read_deletes(storage, delete_file)
        except UnreadableFile as error:
            if delete_file.encryption_key is None and _is_there(storage, delete_file.path):
                notes.add("bad-delete-file", table_id, str(error), shown.DELETE_FILES, delete_file.delete_file_id)
            return None
        for code, told in _delete_troubles(file, delete_file, positions):
            example = f"delete file {delete_file.delete_file_id} of data file {file.data_file_id} {told}"
            notes.add(code, table_id, example, shown.DELETE_FILES, delete_file.delete_file_id)
        found.append(positions)
    return np.unique(np.concatenate(found))


def _delete_troubles(file: DataFile, delete_file: DeleteFile, positions: np.ndarray) -> list[tuple[str, str]]:
    found = []
    if len(positions) != delete_file.delete_count:
        found.append(("wrong-delete-count", f"has {len(positions)}, the catalog says {delete_file.delete_count}"))
    beyond = positions[(positions < 0) | (positions >= file.record_count)]
    if len(beyond):
        told = f"deletes position {beyond[0]} of {file.record_count} rows, and {len(beyond) - 1} more beyond"
        found.append(("delete-marks-beyond-rows", told))
    both = np.intersect1d(positions, np.asarray(file.inlined_deletes, np.int64))
    if len(both):
        told = f"deletes {len(both)} positions that catalog rows delete, too: {', '.join(map(str, both[:5].tolist()))}"
        found.append(("overlapping-delete-marks", told))
    return found
