"""Delete files: which positions of a data file are deleted, and since which snapshot (format §7).

Runs on driver and executors; needs no catalog. Written in the form of 1.0: one cumulative file per data file, with the
deleting snapshot of each position as soon as there is more than one.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Sequence
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.parquet import encryption
from uuid6 import uuid7

from ducklake_core.errors import InvalidInput, UnreadableFile
from ducklake_core.files.delete_cache import DELETES
from ducklake_core.files.deletion_vectors import positions_of
from ducklake_core.files.open_file import footer_size_in
from ducklake_core.files.parquet_reader import decryption_of, explain
from ducklake_core.files.storage import Storage
from ducklake_core.model import DataFile, DeleteFile, NewDeleteFile, ReplacedFile, SnapshotId
from ducklake_core.spec.buffers import integers_of
from ducklake_core.spec.paths import relative_to
from ducklake_core.spec.types import FIELD_ID, SNAPSHOT_ID_FIELD, SNAPSHOT_ID_NAME

_FILE_PATH_FIELD = 2147483646
_POSITION_FIELD = 2147483645
_LONG = 100_000  # positions: fewer are decoded before threads have begun


def new_delete_file_name(unique: Callable[[], UUID] = uuid7) -> str:
    return f"ducklake-{unique()}-delete.parquet"


def read_deletes(
    storage: Storage, delete_file: DeleteFile, snapshot: SnapshotId | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the sorted positions that are deleted at a snapshot (None: at any), and the snapshots that deleted them.

    The snapshots are None when the file does not say: then it was `delete_file.begin_snapshot` for all.
    """
    try:
        if delete_file.format == "puffin":
            with storage.open_input(delete_file.path) as source:
                return positions_of(source.read()), None
        positions, snapshots = _read_parquet(storage, delete_file)
    except (pa.ArrowException, OSError, UnreadableFile) as error:
        raise UnreadableFile(
            f"cannot read delete file {delete_file.delete_file_id} '{delete_file.path}': {explain(error)}",
            path=delete_file.path,
            data_file_id=delete_file.data_file_id,
            snapshot=snapshot,
        ) from error
    if snapshots is None or snapshot is None:
        return positions, snapshots
    return positions[snapshots <= snapshot], snapshots[snapshots <= snapshot]


def dropped_positions(storage: Storage, file: DataFile, snapshot: SnapshotId) -> np.ndarray | None:
    """Return the sorted positions of a data file that are deleted at a snapshot, None when there is none."""
    inlined = np.asarray(file.inlined_deletes, dtype=np.int64)
    found = [read_deletes(storage, delete_file, snapshot)[0] for delete_file in file.delete_files]
    found += [inlined] if len(inlined) else []
    if not found:
        return None
    return found[0] if len(found) == 1 else merged_positions(found)


def merged_positions(positions: Sequence[np.ndarray]) -> np.ndarray:
    """Return each position once, sorted. Those read from files are in order mostly; `numpy.unique` hashes them all."""
    found = np.concatenate(positions) if len(positions) > 1 else positions[0]
    later = np.diff(found)
    if (later > 0).all():
        return found
    if (later < 0).any():
        found = np.sort(found)
        later = np.diff(found)
    once: np.ndarray = found[np.concatenate([[True], later > 0])]
    return once


def read_all_deletes(
    storage: Storage, delete_files: Sequence[DeleteFile], *, keeps: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions that any of the delete files of one data file ever deletes, and the snapshots that did.

    `keeps`: in this process, for who asks again.
    """
    positions, snapshots = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for delete_file in delete_files:
        known = DELETES.find(delete_file) if keeps else None
        found, deleted_by = known or read_deletes(storage, delete_file)
        if keeps and known is None and delete_file.encryption_key is None:
            DELETES.keep(delete_file.path, (found, deleted_by))
        positions.append(found)
        snapshots.append(np.full(len(found), delete_file.begin_snapshot) if deleted_by is None else deleted_by)
    if len(delete_files) == 1:  # whose positions are sorted
        return positions[-1], snapshots[-1]
    return first_deletes(np.concatenate(positions), np.concatenate(snapshots))


def first_deletes(positions: np.ndarray, snapshots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each position once, sorted, with the first snapshot that deleted it."""
    order = np.lexsort((snapshots, positions))
    unique, first = np.unique(positions[order], return_index=True)
    return unique, snapshots[order][first]


def write_delete_file(
    storage: Storage,
    directory: str,
    data_file_path: str,
    positions: np.ndarray,
    snapshots: np.ndarray | None = None,
    *,
    encrypted: bool = False,
    new_name: Callable[[], str] = new_delete_file_name,
) -> NewDeleteFile:
    """Write sorted positions of one data file; with `snapshots`, when each was deleted.

    `directory` is the table's, `data_file_path` the data file's full path.
    """
    _check_positions(positions)
    path, key = new_name(), secrets.token_bytes(16) if encrypted else None
    content = _encoded(_delete_table(data_file_path, positions, snapshots), key)
    new = NewDeleteFile(
        path=path,
        path_is_relative=True,
        delete_count=len(positions),
        file_size_bytes=content.size,
        footer_size=footer_size_in(content),
        encryption_key=None if key is None else base64.b64encode(key).decode(),
    )
    storage.write_whole(directory + path, content)
    return new


def replaced_files(delete_files: Sequence[DeleteFile], data_path: str) -> tuple[ReplacedFile, ...]:
    """Return delete files as they are scheduled for deletion."""
    return tuple(ReplacedFile(d.delete_file_id, *relative_to(d.path, data_path)) for d in delete_files)


def merge_deletes(
    old_positions: np.ndarray, old_snapshots: np.ndarray, new_positions: np.ndarray, snapshot: SnapshotId
) -> tuple[np.ndarray, np.ndarray]:
    """Return the union of deleted positions, sorted, each with the first snapshot that deleted it.

    Both are sorted, so that new ones are put where they belong: sets of them take ten times as long.
    """
    fresh = new_positions[~are_among(new_positions, old_positions)]
    places = np.searchsorted(old_positions, fresh)
    return np.insert(old_positions, places, fresh), np.insert(old_snapshots, places, snapshot)


def are_among(positions: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Tell which positions are among others, which are sorted."""
    if not len(others):
        return np.zeros(len(positions), bool)
    places = np.minimum(np.searchsorted(others, positions), len(others) - 1)
    return np.asarray(others[places] == positions)


def _read_parquet(storage: Storage, delete_file: DeleteFile) -> tuple[np.ndarray, np.ndarray | None]:
    """Read by place, as the reference does: positions second, snapshots third and only under their own name."""
    with storage.open_input(delete_file.path) as source:
        parquet = pq.ParquetFile(source, decryption_properties=decryption_of(delete_file.encryption_key))
        schema = parquet.schema_arrow
        is_long = parquet.metadata.num_rows > _LONG
        names = schema.names[1:]  # the path is in every row
        table = parquet.read(names, use_threads=is_long) if len(schema) in (2, 3) else None
    if table is None or schema.field(1).type != pa.int64() or table.column(0).null_count:
        raise UnreadableFile("a delete file has a path, a position of type INT64 and at most one more column")
    positions = integers_of(table.column(0))
    has_snapshots = len(schema) > 2 and schema.field(2).name == SNAPSHOT_ID_NAME
    snapshots = integers_of(table.column(1)) if has_snapshots else None
    if (np.diff(positions) > 0).all():
        return positions, snapshots
    raise UnreadableFile("its positions do not increase")


def _check_positions(positions: np.ndarray) -> None:
    if len(positions) == 0 or positions[0] < 0 or not (np.diff(positions) > 0).all():
        raise InvalidInput("positions to delete must be given, not negative, sorted and each once")


def _encoded(table: pa.Table, key: bytes | None) -> pa.Buffer:
    """Return a delete file as bytes. Of positions, no two are the same, and most are near the one before."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        store_schema=False,
        use_dictionary=["file_path", SNAPSHOT_ID_NAME],
        column_encoding={"pos": "DELTA_BINARY_PACKED"},
        encryption_properties=None if key is None else encryption.create_encryption_properties(footer_key=key),
    )
    return sink.getvalue()


def _delete_table(data_file_path: str, positions: np.ndarray, snapshots: np.ndarray | None) -> pa.Table:
    once = np.zeros(len(positions), np.int32)  # the same path in every row takes its time to be compared
    columns = [
        (pa.DictionaryArray.from_arrays(once, [data_file_path]), "file_path", _FILE_PATH_FIELD),
        (pa.array(positions, pa.int64()), "pos", _POSITION_FIELD),
    ]
    if snapshots is not None:
        columns.append((pa.array(snapshots, pa.int64()), SNAPSHOT_ID_NAME, SNAPSHOT_ID_FIELD))
    fields = [pa.field(name, array.type, metadata={FIELD_ID: str(number).encode()}) for array, name, number in columns]
    return pa.Table.from_arrays([array for array, _, _ in columns], schema=pa.schema(fields))
