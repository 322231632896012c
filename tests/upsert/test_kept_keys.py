"""Keys of data files that are kept between upserts: they save reads, and say nothing of what has changed since."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core import Lake
from ducklake_core.files.parquet_reader import POSITIONS, ROW_IDS, ReadRequest, iterate_data_file
from ducklake_core.files.recent import Recent
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, ColumnId, DataFile, DataFileId, SnapshotId
from ducklake_core.upsert import file_search
from ducklake_core.upsert.kept_keys import KeptRows, KeyCache
from ducklake_core.upsert.kept_values import KeptValues
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle

COUNT, GROUP = 200, 16


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Which row groups of files were read for their keys, read by read."""
    found, real = [], iterate_data_file

    def counted(*arguments: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        found.append(named["wanted"])
        return real(*arguments, **named)

    monkeypatch.setattr(file_search, "iterate_data_file", counted)
    return found


def test_a_file_is_read_for_keys_twice_at_most_and_deletes_of_others_are_seen(
    catalog: Catalog, oracle: Oracle, reads: list[Any]
) -> None:
    shuffled = np.random.default_rng(3).permutation(COUNT).tolist()
    expected = {(a, 1000 - 3 * a): 0 for a in shuffled}
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.set_option("parquet_row_group_size", GROUP)
        lake.create_table("t", {"a": "int64", "b": "int64", "v": "int32"})
        lake.append("t", [{"a": a, "b": b, "v": 0} for a, b in expected])
        oracle.attach(catalog.attach)
        for turn, keys in enumerate([["a", "b"]] * 4 + [["b", "a"]] * 3 + [["a"]] * 3):
            changed = {(a, 1000 - 3 * a): 1000 * turn + a for a in (500, turn + 30, turn, 150 - turn)}
            report = lake.upsert("t", [{"a": a, "b": b, "v": v} for (a, b), v in changed.items()], keys=keys)
            assert report.inserted == len(changed.keys() - expected.keys())
            expected |= changed
            oracle.execute(f"DELETE FROM t WHERE a = {turn + 31}")  # a key of the next turn
            expected.pop((turn + 31, 1000 - 3 * (turn + 31)))
            assert {(a, b): v for a, b, v in oracle.query("SELECT a, b, v FROM t")} == expected
            if turn == 2:
                reads.clear()
            assert turn != 3 or not reads  # all is kept


@pytest.mark.parametrize("kind", ["uint8", "uint32", "uint64", "int8", "int64"])
@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_kept_keys_of_any_integers_are_found(catalog: Catalog, kind: str) -> None:
    least, most = (-(2**62), 2**62) if kind == "int64" else (0, 20)  # whose difference int64 does not hold
    keys = [most, *range(least + 9, least, -1)]  # in a file they need not be in order

    def table(some: list[int], value: int) -> pa.Table:
        return pa.table({"id": pa.array(some, pa.type_for_alias(kind)), "v": [value] * len(some)})

    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": kind, "v": "int64"})
        with lake.transaction() as tx:
            tx.append("t", table(keys, 0), inline_rows=0)
        for turn in range(4):
            report = lake.upsert("t", table([most, keys[1]], turn + 1), keys="id")
            assert (report.inserted, report.updated) == (0, 2)
        assert lake.upsert("t", table(keys[2:], 9), keys="id").updated == len(keys) - 2
        assert lake.delete_keys("t", table(keys[1:], 0), keys="id").deleted == len(keys) - 1
        assert lake.table("t").read(["id"]).column("id").to_pylist() == [most]


def rows_of(values: list[int | None], start: int = 0, row_ids: list[int] | None = None) -> pa.RecordBatch:
    ids = [100 + start + place for place in range(len(values))] if row_ids is None else row_ids
    positions = np.arange(start, start + len(values))
    return pa.record_batch({"id": pa.array(values, pa.int64()), ROW_IDS: ids, POSITIONS: positions})


ID = Column(ColumnId(1), "id", "int64")
STORAGE = Storage.of("data/")
FILE = DataFile(DataFileId(1), "f", SnapshotId(1), 6, 1, 100)


def test_candidates_are_all_rows_with_a_wanted_value_in_their_order() -> None:
    kept = KeptRows.of([rows_of([7, 3, 3], 10), rows_of([9, 7, 1], 13)], ID, FILE)
    wanted = np.asarray([-5, 3, 7, 8, 99])
    places, which = kept.candidates(wanted) or pytest.fail("nothing was looked for")
    assert (places.tolist(), kept.row_ids_of(places, FILE).tolist()) == ([0, 1, 2, 4], [110, 111, 112, 114])
    assert wanted[which].tolist() == [7, 3, 3, 7]
    sorted_ = KeptRows.of([rows_of([1, 3, 3, 4], row_ids=[9, 8, 7, 6])], ID, FILE)
    places, which = sorted_.candidates(wanted) or pytest.fail("nothing was looked for")
    assert wanted[which].tolist() == [3, 3]
    assert (places.tolist(), sorted_.row_ids_of(places, FILE).tolist()) == ([1, 2], [8, 7])
    assert KeptRows.of([rows_of([1, None])], ID, FILE).candidates(wanted) is None  # look through all
    assert sorted_.candidates(wanted.astype(np.uint64)) is None


def test_what_was_asked_for_last_is_kept_up_to_a_limit() -> None:
    recent: Recent[str, int] = Recent(10)
    for name in "ab":
        recent.keep(name, 1, 5)
    recent.find("a")
    recent.keep("c", 1, 5)
    recent.keep("d", 1, 11)
    assert [recent.find(name) for name in "abcd"] == [1, None, 1, None]
    recent.keep("a", 2, 6)  # in place of the one before
    assert [recent.find(name) for name in "ac"] == [2, None]


@pytest.mark.parametrize(("most_groups", "kept"), [(3, [0, 1, 2]), (2, [1, 2]), (0, [])])
def test_row_groups_that_came_first_go(tmp_path: Path, most_groups: int, kept: list[int]) -> None:
    pq.write_table(pa.table({"id": pa.array(range(6), pa.int64())}), tmp_path / "f", row_group_size=2)
    rows = KeptRows.of([rows_of([1, 2])], ID, FILE)
    cache = KeyCache(1500 + most_groups * rows.size_bytes)
    keys = cache.of(STORAGE, FILE, pq.read_metadata(tmp_path / "f"), ID, ReadRequest((ID,), table_columns=(ID,)))
    for number in range(3):
        cache.add(STORAGE, FILE, keys, number, rows)
    assert [*keys.kept] == kept


def test_values_of_row_groups_are_kept_by_column(tmp_path: Path) -> None:
    path, names = str(tmp_path / "f"), ("a", "b")
    ids = [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": f"{i + 1}"}) for i, name in enumerate(names)]
    rows = pa.table([pa.array(range(first, first + 10)) for first in (0, 100)], pa.schema(ids))
    pq.write_table(rows, path, row_group_size=3)
    file = DataFile(DataFileId(1), path, SnapshotId(1), 10, Path(path).stat().st_size, 0)
    columns = tuple(Column(ColumnId(i + 1), name, "int64") for i, name in enumerate(names))

    footer = pq.read_metadata(path)

    def values(column: Column, positions: list[int]) -> list[int]:
        request = ReadRequest((column,), with_positions=True, table_columns=columns)
        kept = KeptValues(Storage.of(path), file, footer, request)
        found: list[int] = kept.at(np.asarray(positions)).column(0).to_pylist()
        return found

    assert values(columns[0], [1, 2, 9]) == [1, 2, 9]
    assert values(columns[0], [0, 4, 9]) == [0, 4, 9]
    assert values(columns[1], [0, 4, 9]) == [100, 104, 109]
    Path(path).unlink()
    assert values(columns[1], [0, 2, 3]) == [100, 102, 103]  # without the file
