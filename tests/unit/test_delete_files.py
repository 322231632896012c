"""Delete files: written, read at a snapshot, merged; and deletion vectors, read only."""

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.errors import InvalidInput, UnreadableFile
from ducklake_core.files.delete_files import merge_deletes, read_deletes, write_delete_file
from ducklake_core.files.deletion_vectors import positions_of
from ducklake_core.files.storage import Storage
from ducklake_core.model import DataFileId, DeleteFile, DeleteFileId, SnapshotId

STORAGE = Storage.of("/")
POSITIONS = np.array([1, 5, 2**33])
SNAPSHOTS = np.array([4, 7, 5])


def delete_file(path: Path | str, format_: str = "parquet") -> DeleteFile:
    return DeleteFile(
        DeleteFileId(8),
        DataFileId(3),
        str(path),
        format=format_,
        begin_snapshot=SnapshotId(4),
        delete_count=0,
    )


def written(directory: Path, *, encrypted: bool = False) -> DeleteFile:
    new = write_delete_file(STORAGE, f"{directory}/", "/lake/x.parquet", POSITIONS, SNAPSHOTS, encrypted=encrypted)
    return replace(delete_file(directory / new.path), encryption_key=new.encryption_key)


def test_delete_file_has_the_columns_of_the_format(tmp_path: Path) -> None:
    new = write_delete_file(STORAGE, f"{tmp_path}/", "/lake/x.parquet", POSITIONS, SNAPSHOTS)

    content = (tmp_path / new.path).read_bytes()
    schema = str(pq.ParquetFile(tmp_path / new.path).schema)
    assert [line.strip() for line in schema.splitlines() if "optional" in line] == [
        "optional binary field_id=2147483646 file_path (String);",
        "optional int64 field_id=2147483645 pos;",
        "optional int64 field_id=2147483539 _ducklake_internal_snapshot_id;",
    ]
    assert pq.ParquetFile(tmp_path / new.path).read().column("file_path").to_pylist() == ["/lake/x.parquet"] * 3
    assert (new.delete_count, new.path_is_relative) == (3, True)
    assert new.file_size_bytes == len(content)
    assert new.footer_size == int.from_bytes(content[-8:-4], "little")


@pytest.mark.parametrize(
    ("snapshot", "positions"), [(None, [1, 5, 2**33]), (7, [1, 5, 2**33]), (6, [1, 2**33]), (4, [1]), (3, [])]
)
def test_positions_are_those_deleted_at_the_snapshot(
    tmp_path: Path, snapshot: int | None, positions: list[int]
) -> None:
    found, snapshots = read_deletes(STORAGE, written(tmp_path), None if snapshot is None else SnapshotId(snapshot))

    assert found.tolist() == positions
    assert snapshots is not None
    assert snapshots.tolist() == [dict(zip(POSITIONS, SNAPSHOTS, strict=True))[p] for p in positions]


def test_file_without_snapshots_does_not_say_when(tmp_path: Path) -> None:
    new = write_delete_file(STORAGE, f"{tmp_path}/", "/lake/x.parquet", POSITIONS)

    found, snapshots = read_deletes(STORAGE, delete_file(tmp_path / new.path), SnapshotId(1))

    assert found.tolist() == POSITIONS.tolist()
    assert snapshots is None


def test_encrypted_delete_file_needs_its_key(tmp_path: Path) -> None:
    file = written(tmp_path, encrypted=True)

    assert read_deletes(STORAGE, file)[0].tolist() == POSITIONS.tolist()
    with pytest.raises(UnreadableFile, match="delete file 8"):
        read_deletes(STORAGE, replace(file, encryption_key=None))


@pytest.mark.parametrize("positions", [[], [2, 1], [1, 1], [-1, 2]])
def test_positions_must_be_sorted_and_each_once(tmp_path: Path, positions: list[int]) -> None:
    with pytest.raises(InvalidInput):
        write_delete_file(STORAGE, f"{tmp_path}/", "x", np.array(positions, np.int64))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": ["x"]}),
        pa.table({"a": ["x"], "pos": pa.array([1], pa.int32())}),
        pa.table({"a": ["x"], "pos": pa.array([None], pa.int64())}),
        pa.table({"a": ["x", "x"], "pos": [2, 1]}),
        pa.table({"a": ["x"], "pos": [1], "b": [1], "c": [1]}),
    ],
)
def test_delete_file_of_another_shape_is_refused(tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table, tmp_path / "d.parquet")

    with pytest.raises(UnreadableFile, match=r"cannot read delete file 8 '.*d\.parquet'"):
        read_deletes(STORAGE, delete_file(tmp_path / "d.parquet"))


def test_third_column_of_another_name_is_ignored(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x"], "b": [1], "row": [9]}), tmp_path / "d.parquet")

    assert read_deletes(STORAGE, delete_file(tmp_path / "d.parquet"))[1] is None


def test_missing_delete_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="missing") as error:
        read_deletes(STORAGE, delete_file(tmp_path / "missing.parquet"), SnapshotId(5))
    assert (error.value.data_file_id, error.value.snapshot) == (3, 5)


@given(
    st.dictionaries(st.integers(0, 30), st.integers(1, 9)),
    st.sets(st.integers(0, 30)),
    st.integers(10, 20),
)
def test_merged_deletes_keep_the_first_snapshot_of_each_position(
    old: dict[int, int], new: set[int], snapshot: int
) -> None:
    olds = sorted(old)
    positions, snapshots = merge_deletes(
        np.array(olds, np.int64),
        np.array([old[p] for p in olds], np.int64),
        np.array(sorted(new), np.int64),
        SnapshotId(snapshot),
    )

    assert dict(zip(positions.tolist(), snapshots.tolist(), strict=True)) == dict.fromkeys(new, snapshot) | old
    assert positions.tolist() == sorted({*old, *new})  # each once
    assert positions.dtype == snapshots.dtype == np.int64


# ------------------------------------------------------------------------------------- deletion vectors


def blob(*bitmaps: tuple[int, bytes]) -> bytes:
    body = struct.pack("<Q", len(bitmaps)) + b"".join(struct.pack("<I", high) + content for high, content in bitmaps)
    content = b"\xd1\xd3\x39\x64" + body
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def array_bitmap(values: list[int]) -> bytes:
    """Make a bitmap with one array container, without runs."""
    header = struct.pack("<IIHHI", 12346, 1, 0, len(values) - 1, 16)
    return header + np.array(values, "<u2").tobytes()


def bitset_bitmap(values: list[int]) -> bytes:
    bits = np.zeros(65536, np.uint8)
    bits[values] = 1
    return struct.pack("<IIHHI", 12346, 1, 0, len(values) - 1, 16) + np.packbits(bits, bitorder="little").tobytes()


def run_bitmap(high: int, start: int, length: int) -> bytes:
    """Make a bitmap with one run container: so few containers have no offsets."""
    return struct.pack("<IBHHHHH", 12347, 1, high, length - 1, 1, start, length - 1)


@pytest.mark.parametrize(
    ("content", "positions"),
    [
        (blob(), []),
        (blob((0, array_bitmap([3, 7, 65535]))), [3, 7, 65535]),
        (blob((0, bitset_bitmap(list(range(0, 65536, 2))))), list(range(0, 65536, 2))),
        (blob((0, run_bitmap(2, 10, 5))), [2 * 65536 + 10 + i for i in range(5)]),
        (blob((0, array_bitmap([1])), (3, array_bitmap([2]))), [1, (3 << 32) + 2]),
    ],
    ids=["empty", "array", "bitset", "run", "beyond 32 bits"],
)
def test_deletion_vector_gives_its_positions(tmp_path: Path, content: bytes, positions: list[int]) -> None:
    (tmp_path / "d.puffin").write_bytes(content)

    found, snapshots = read_deletes(STORAGE, delete_file(tmp_path / "d.puffin", "puffin"))

    assert found.tolist() == positions
    assert snapshots is None


def test_run_and_array_containers_together_have_offsets_from_four_on() -> None:
    keys = np.array([[0, 0], [1, 2], [2, 0], [3, 0]], "<u2").tobytes()
    containers = struct.pack("<H", 9) + struct.pack("<HHH", 1, 4, 2) + struct.pack("<H", 8) + struct.pack("<H", 7)
    bitmap = struct.pack("<IB", 12347 | 3 << 16, 0b0010) + keys + bytes(16) + containers

    assert positions_of(blob((0, bitmap))).tolist() == [9, 65540, 65541, 65542, 131080, 196615]


@pytest.mark.parametrize("damage", ["short", "checksum", "magic", "cookie"])
def test_damaged_deletion_vector_is_refused(damage: str) -> None:
    good = blob((0, array_bitmap([3, 7])))
    damaged = {
        "short": good[:10],
        "checksum": good[:-1] + bytes([good[-1] ^ 1]),
        "magic": good[:4] + b"XXXX" + good[8:],
        "cookie": blob((0, bytes(20))),
    }

    with pytest.raises(UnreadableFile, match="deletion vector is damaged"):
        positions_of(damaged[damage])
