"""What the footer of a data file says of its row groups: which may hold a key, and which new values are changes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core.files.footer_bounds import FileBounds, certainly_other, find_bounds
from ducklake_core.files.footer_cache import FOOTERS, FooterCache
from ducklake_core.files.parquet_reader import ReadRequest, iterate_data_file
from ducklake_core.files.row_groups import WantedKey
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile, DataFileId, SnapshotId
from ducklake_core.spec.types import build_columns

COLUMNS = build_columns({"id": "int64", "name": "varchar", "at": "timestamp"})
HERE = Storage("/here")
NAMES = ["a", "b", "c", "d", "e", "é"]


@pytest.fixture
def file(tmp_path: Path) -> DataFile:
    """Give a file of three row groups of two rows."""
    path = f"{tmp_path}/rows.parquet"
    at = pa.array(range(6), pa.timestamp("us"))
    table = pa.table({"id": [1, 2, 3, 4, None, 6], "name": NAMES, "at": at})
    fields = [
        f.with_metadata({b"PARQUET:field_id": b"%d" % c.column_id}) for f, c in zip(table.schema, COLUMNS, strict=True)
    ]
    pq.write_table(table.cast(pa.schema(fields)), path, row_group_size=2, store_schema=False)
    return DataFile(DataFileId(0), path, SnapshotId(1), 6, Path(path).stat().st_size, 0)


def read(file: DataFile, column: Column, values: pa.Array) -> list[str]:
    key = WantedKey.of(column, values)
    assert key is not None
    found = iterate_data_file(Storage.of(file.path), file, ReadRequest(COLUMNS), wanted=(key,))
    return [name for rows in found for name in rows.column("name").to_pylist()]


@pytest.mark.parametrize(
    ("values", "names"),
    [([2], "ab"), ([3], "cd"), ([0, 7], ""), ([1, 4], "abcd"), ([0, 5, 6, 9], "eé")],
)
def test_row_groups_are_read_that_may_hold_a_key(file: DataFile, values: list[int], names: str) -> None:
    assert "".join(read(file, COLUMNS[0], pa.array(values))) == names


def test_row_groups_whose_texts_are_not_ascii_are_always_read(file: DataFile) -> None:
    assert read(file, COLUMNS[1], pa.array(["d"])) == ["c", "d", "e", "é"]


def test_values_that_footers_tell_nothing_certain_of_are_no_wanted_key() -> None:
    assert WantedKey.of(COLUMNS[2], pa.array([1], pa.timestamp("us"))) is None


def changed(file: DataFile, positions: list[int], **new: pa.Array) -> list[bool]:
    """Tell it of rows in the file, which stand behind those of one of which nothing is known."""
    bounds, both = FileBounds.of(pq.read_metadata(file.path), file, COLUMNS), pa.concat_tables([pa.table(new)] * 2)
    places = np.asarray(positions)
    unknown, found = np.split(certainly_other([(None, places), (bounds, places)], COLUMNS, both), 2)
    assert not unknown.any()
    return list(found.tolist())


def test_a_value_within_the_bounds_of_its_row_group_is_no_certain_change(file: DataFile) -> None:
    every = [0, 1, 2, 3, 4, 5]
    assert not any(changed(file, every, id=pa.array([1, 2, 3, 4, None, 6])))
    assert not any(changed(file, every, name=pa.array(NAMES)))
    assert not any(changed(file, every, at=pa.array(every, pa.timestamp("us"))))
    assert not any(
        changed(file, [1, 5], name=pa.array(["a", "z"]))
    )  # the second group has no text that can be relied on


def test_a_value_outside_of_its_row_group_is_a_change(file: DataFile) -> None:
    assert changed(file, [0, 2, 5], id=pa.array([0, 5, 7])) == [True] * 3
    assert changed(file, [0, 2], name=pa.array(["c", "b"])) == [True, True]
    assert changed(file, [1, 4], at=pa.array([2, None], pa.timestamp("us"))) == [True, False]


def test_bounds_are_kept_for_the_columns_that_they_were_read_by(file: DataFile) -> None:
    storage, first = Storage.of(file.path), COLUMNS[0]
    assert find_bounds(storage, file, COLUMNS) is None  # the footer is not at hand
    FOOTERS.keep(storage, file, pq.read_metadata(file.path))

    bounds, again = find_bounds(storage, file, COLUMNS), find_bounds(storage, file, COLUMNS)
    other = find_bounds(storage, file, (replace(first, type="int8"), *COLUMNS[1:]))  # not as the file has it

    assert bounds is not None
    assert other is not None
    assert bounds is again
    assert [group.get(first.column_id) for group in bounds.groups] == [(1, 2), (3, 4), (6, 6)]
    assert not any(first.column_id in group for group in other.groups)


def test_footers_that_were_asked_for_last_are_kept(file: DataFile) -> None:
    footer = pq.read_metadata(file.path)
    cache = FooterCache(most_bytes=2 * footer.serialized_size)
    files = [DataFile(DataFileId(i), f"{i}", SnapshotId(1), 6, 1, 0) for i in range(3)]
    for one in files[:2]:
        cache.keep(HERE, one, footer)
    cache.find(HERE, files[0])
    cache.keep(HERE, files[2], footer)
    assert [cache.find(HERE, one) is not None for one in files] == [True, False, True]
    assert cache.find(Storage("s3://elsewhere"), files[0]) is None
