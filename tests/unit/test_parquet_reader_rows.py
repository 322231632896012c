"""Which rows of a data file a snapshot sees, and what happens when the file cannot be read."""

import base64
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ducklake_core.errors import UnreadableFile
from ducklake_core.files.parquet_reader import (
    POSITIONS,
    ROW_IDS,
    SNAPSHOT_IDS,
    ReadRequest,
    iterate_data_file,
    read_data_file,
)
from ducklake_core.files.parquet_writer import FileLayout, write_data_files
from ducklake_core.files.storage import Storage
from ducklake_core.model import DataFile, DataFileId, SnapshotId
from ducklake_core.spec.types import build_columns
from ducklake_core.spec.write_options import WriteOptions

STORAGE = Storage.of("/")
COLUMNS = build_columns({"i": "int64", "s": "varchar"})
ROWS = pa.table({"i": pa.array(range(10)), "s": [str(i) for i in range(10)]})
EVERYTHING = ReadRequest(COLUMNS[:1], with_row_ids=True, with_snapshot_ids=True, with_positions=True)


def write(directory: Path, options: WriteOptions | None = None, **ids: pa.Array) -> DataFile:
    layout = FileLayout(f"{directory}/", COLUMNS, options=options or WriteOptions())
    (file,) = write_data_files(STORAGE, layout, ROWS, **ids)
    return DataFile(
        DataFileId(3),
        layout.directory + file.path,
        SnapshotId(2),
        file.record_count,
        file.file_size_bytes,
        row_id_start=100,
        encryption_key=file.encryption_key,
    )


def test_row_ids_and_snapshots_come_from_the_catalog_when_the_file_has_none(tmp_path: Path) -> None:
    back = read_data_file(STORAGE, write(tmp_path), EVERYTHING)

    assert back.schema == EVERYTHING.schema
    assert back.column(ROW_IDS).to_pylist() == list(range(100, 110))
    assert back.column(SNAPSHOT_IDS).to_pylist() == [2] * 10
    assert back.column(POSITIONS).to_pylist() == list(range(10))


def test_row_ids_and_snapshots_in_the_file_win(tmp_path: Path) -> None:
    file = write(tmp_path, row_ids=pa.array(range(50, 60)), snapshot_ids=pa.array(range(10)))

    back = read_data_file(STORAGE, file, EVERYTHING)

    assert back.column(ROW_IDS).to_pylist() == list(range(50, 60))
    assert back.column(SNAPSHOT_IDS).to_pylist() == list(range(10))


def test_file_without_any_row_ids_is_an_error_only_when_they_are_wanted(tmp_path: Path) -> None:
    file = replace(write(tmp_path), row_id_start=None)

    assert len(read_data_file(STORAGE, file, ReadRequest(COLUMNS))) == 10
    with pytest.raises(UnreadableFile, match="has no row ids"):
        read_data_file(STORAGE, file, EVERYTHING)


@pytest.mark.parametrize(("snapshot", "seen"), [(3, [0, 1, 2, 3]), (9, list(range(10))), (None, list(range(10)))])
def test_partial_file_shows_the_rows_of_its_snapshot(tmp_path: Path, snapshot: int | None, seen: list[int]) -> None:
    file = replace(write(tmp_path, snapshot_ids=pa.array(range(10))), partial_max=SnapshotId(9))
    request = ReadRequest(COLUMNS[:1], None if snapshot is None else SnapshotId(snapshot))

    assert read_data_file(STORAGE, file, request).column("i").to_pylist() == seen


def test_partial_file_without_snapshots_is_an_error(tmp_path: Path) -> None:
    file = replace(write(tmp_path), partial_max=SnapshotId(9))

    with pytest.raises(UnreadableFile, match="rows of several snapshots"):
        read_data_file(STORAGE, file, ReadRequest(COLUMNS, SnapshotId(3)))


@pytest.mark.parametrize("rows_per_group", [3, 100])
def test_deleted_and_filtered_rows_are_left_out_and_positions_stay(tmp_path: Path, rows_per_group: int) -> None:
    file = write(tmp_path, WriteOptions(row_group_rows=rows_per_group), snapshot_ids=pa.array([1] * 8 + [5] * 2))
    request = replace(EVERYTHING, snapshot=SnapshotId(4))

    back = read_data_file(
        STORAGE,
        replace(file, partial_max=SnapshotId(5)),
        request,
        dropped_positions=np.array([0, 2, 6, 9, 500]),
        row_filter=pc.field("i") != 4,
    )

    assert back.column(POSITIONS).to_pylist() == [1, 3, 5, 7]
    assert back.column("i").to_pylist() == [1, 3, 5, 7]
    assert back.column(ROW_IDS).to_pylist() == [101, 103, 105, 107]


def test_positions_go_on_from_one_record_batch_to_the_next(tmp_path: Path) -> None:
    count, columns = 250_000, COLUMNS[:1]
    layout = FileLayout(f"{tmp_path}/", columns)
    (new,) = write_data_files(STORAGE, layout, pa.table({"i": np.arange(count)}))
    file = DataFile(DataFileId(3), layout.directory + new.path, SnapshotId(2), count, 0, row_id_start=7)

    batches = list(iterate_data_file(STORAGE, file, EVERYTHING, dropped_positions=np.array([5, 200_000])))

    back = pa.Table.from_batches(batches)
    kept = np.delete(np.arange(count), [5, 200_000])
    assert len(batches) > 1
    assert np.array_equal(back.column("i").to_numpy(), kept)
    assert np.array_equal(back.column(POSITIONS).to_numpy(), kept)
    assert np.array_equal(back.column(ROW_IDS).to_numpy(), kept + 7)


def test_no_columns_still_count_rows(tmp_path: Path) -> None:
    file = write(tmp_path)

    assert sum(b.num_rows for b in iterate_data_file(STORAGE, file, ReadRequest(()))) == 10
    positions = read_data_file(STORAGE, file, ReadRequest((), with_positions=True), dropped_positions=np.array([3]))
    assert len(positions) == 9


def test_only_wanted_columns_are_read(tmp_path: Path) -> None:
    file = write(tmp_path)
    chunk = pq.ParquetFile(file.path).metadata.row_group(0).column(1)
    start, end = chunk.dictionary_page_offset, chunk.dictionary_page_offset + chunk.total_compressed_size
    content = bytearray(Path(file.path).read_bytes())
    content[start:end] = bytes(end - start)
    Path(file.path).write_bytes(content)

    assert read_data_file(STORAGE, file, ReadRequest(COLUMNS[:1])).num_rows == 10
    with pytest.raises(UnreadableFile):
        read_data_file(STORAGE, file, ReadRequest(COLUMNS[1:]))


@pytest.mark.parametrize("damage", ["missing", "empty", "no parquet", "truncated"])
def test_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    file = write(tmp_path)
    content = Path(file.path).read_bytes()
    Path(file.path).unlink()
    if damage != "missing":
        Path(file.path).write_bytes({"empty": b"", "no parquet": b"x" * 500, "truncated": content[:-20]}[damage])

    with pytest.raises(UnreadableFile, match=r"cannot read data file 3 '.*\.parquet' at snapshot 7"):
        read_data_file(STORAGE, file, ReadRequest(COLUMNS, SnapshotId(7)))


def test_encrypted_file_needs_its_key(tmp_path: Path) -> None:
    file = write(tmp_path, WriteOptions(encrypted=True))
    other_key = base64.b64encode(b"0123456789abcdef").decode()

    assert Path(file.path).read_bytes().endswith(b"PARE")
    assert read_data_file(STORAGE, file, ReadRequest(COLUMNS)).equals(ROWS)
    for key, message in (
        (None, "encrypted"),
        (other_key, "cannot be decrypted"),
        ("no base64!", "key for it is not valid"),
    ):
        with pytest.raises(UnreadableFile, match=message):
            read_data_file(STORAGE, replace(file, encryption_key=key), ReadRequest(COLUMNS))
