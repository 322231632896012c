"""Small files that are read together give what each of them gives by itself."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core.errors import UnreadableFile
from ducklake_core.files.parquet_reader import ReadPlans, ReadRequest, read_data_file
from ducklake_core.files.parquet_writer import FileLayout, write_data_files
from ducklake_core.files.small_files import read_small_files
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, ColumnId, DataFile, DataFileId, SnapshotId
from ducklake_core.spec.types import build_columns
from ducklake_core.spec.write_options import WriteOptions
from ducklake_core.text_repair import hear_of_invalid_text
from tests.fixtures.invalid_text import MENDED

STORAGE = Storage.of("/")
NOW = build_columns({"i": "int64", "s": "varchar", "l": pa.list_(pa.int32())})
NARROW = (replace(NOW[0], type="int32"), *NOW[1:])  # before a promotion
OTHERS = (replace(NOW[0], column_id=ColumnId(99)),)  # all of which are dropped by now
ALL_ROWS = ReadRequest(NOW, with_row_ids=True, with_snapshot_ids=True, table_columns=NOW, with_threads=False)


def write(directory: Path, first: int, columns: Sequence[Column] = NOW, text: str = "x", **ids: pa.Array) -> DataFile:
    layout = FileLayout(f"{directory}/", tuple(columns), options=WriteOptions(compression="none"))
    numbers = pa.array(range(first, first + 5), pa.int32() if columns[0].type == "int32" else pa.int64())
    lists = pa.array([[n] * (n % 3) for n in range(5)], pa.list_(pa.int32()))
    values = {"i": numbers, "s": pa.array([text + str(n) for n in range(5)]), "l": lists}
    (file,) = write_data_files(STORAGE, layout, pa.table({c.name: values[c.name] for c in columns}), **ids)
    path, size = layout.directory + file.path, file.file_size_bytes
    return DataFile(DataFileId(first), path, SnapshotId(first), 5, size, row_id_start=10 * first)


def some_files(directory: Path) -> list[tuple[DataFile, np.ndarray | None]]:
    """Return files of every kind, those of one kind beside each other and apart."""
    partial = write(directory, 40, row_ids=pa.array([7, 3, 9, 1, 5]), snapshot_ids=pa.array([1, 2, 3, 40, 41]))
    return [
        (write(directory, 0), None),
        (write(directory, 10), None),
        (write(directory, 20, NARROW), None),
        (write(directory, 30, NOW[:2]), None),
        (replace(partial, partial_max=SnapshotId(41)), None),
        (write(directory, 50), np.array([0, 3])),
        (write(directory, 60), None),
        (with_other_nullability(write(directory, 70)), None),
        (write(directory, 80), None),
        (write(directory, 90, OTHERS), None),
    ]


def with_other_nullability(file: DataFile) -> DataFile:
    """Write a file anew as who knows that a column has no null."""
    rows = pq.read_table(file.path)
    fields = [field.with_nullable(field.name != "i") for field in rows.schema]
    pq.write_table(pa.Table.from_arrays(rows.columns, schema=pa.schema(fields)), file.path)
    return file


@pytest.mark.parametrize("snapshot", [None, 40, 100], ids=["all rows", "some of a partial file", "live rows"])
def test_files_read_together_give_what_each_gives_by_itself(tmp_path: Path, snapshot: int | None) -> None:
    files = some_files(tmp_path)
    request = replace(ALL_ROWS, snapshot=None if snapshot is None else SnapshotId(snapshot))

    found = read_small_files(STORAGE, files, request, ReadPlans())

    each = [read_data_file(STORAGE, file, request, dropped_positions=dropped) for file, dropped in files]
    assert found.schema == request.schema
    assert found.to_pylist() == pa.concat_tables(each).to_pylist()


def test_fields_are_told_by_their_ids(tmp_path: Path) -> None:
    """A column was dropped, and another of its name and type was added."""
    files = [write(tmp_path, 0), write(tmp_path, 10, (replace(NOW[0], column_id=ColumnId(99)), *NOW[1:]))]

    found = read_small_files(STORAGE, [(file, None) for file in files], ALL_ROWS, ReadPlans())

    assert found.column("i").to_pylist() == [*range(5), *[None] * 5]


def test_text_that_is_no_utf8_is_mended_and_its_file_named(tmp_path: Path) -> None:
    files = [write(tmp_path, 0), write(tmp_path, 10, text="bad"), write(tmp_path, 20)]
    broken = Path(files[1].path)
    broken.write_bytes(broken.read_bytes().replace(b"bad3", b"b\xffd3"))

    with hear_of_invalid_text() as heard:
        found = read_small_files(STORAGE, [(file, None) for file in files], ALL_ROWS, ReadPlans())

    assert found.column("s").to_pylist()[8] == f"{MENDED}3"
    assert heard == {(files[1].path, "s")}


@pytest.mark.parametrize("fault", ["gone", "cut off", "without row ids"])
def test_file_that_cannot_be_read_is_named(tmp_path: Path, fault: str) -> None:
    good, bad = write(tmp_path, 0), write(tmp_path, 10)
    if fault == "gone":
        Path(bad.path).unlink()
    elif fault == "cut off":
        Path(bad.path).write_bytes(Path(bad.path).read_bytes()[:-20])
    else:
        bad = replace(bad, row_id_start=None)

    with pytest.raises(UnreadableFile, match=f"data file 10 '{bad.path}'"):
        read_small_files(STORAGE, [(good, None), (bad, None)], ALL_ROWS, ReadPlans())
