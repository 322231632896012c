"""Whoever reads a table in slices can be told which rows these are and where, and a transaction ends rows by that."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from ducklake_core import Lake, Table
from ducklake_core.errors import CommitConflict, InvalidInput, ObjectNotFound
from ducklake_core.files.parquet_reader import ROW_IDS
from ducklake_core.model import DataFileId
from ducklake_core.plan.filter_sql import parse_filter
from ducklake_core.read.positions import RowPositions
from ducklake_core.read.request import DATA_FILE_IDS, INLINED_TABLES
from ducklake_core.read.sharing import SliceLimits
from ducklake_core.read.slices import read_slice
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle

LIMITS = [SliceLimits(count=3), SliceLimits(shipped_rows=0, count=3)]
# Rows of files of one and of several snapshots, with deletes and without, and inlined ones.
CONDITION = "id < 200 OR id >= 20050 AND id < 20150 OR id >= 30000"


def read(table: Table, columns: list[str], condition: str | None, limits: SliceLimits) -> list[pa.RecordBatch]:
    """Read slices with row ids and positions as other processes would, after their journey."""
    predicate = None if condition is None else parse_filter(condition, table.version.columns)
    slices = table.slices(columns, predicate, limits, with_row_ids=True, with_positions=True)
    travelled = [pickle.loads(pickle.dumps(one)) for one in slices]  # noqa: S301 # our own
    return [record_batch for one in travelled for record_batch in read_slice(one)]


def positions_of(record_batches: list[pa.RecordBatch]) -> RowPositions:
    """Collect positions where rows are read, and let them travel."""
    found = RowPositions()
    for record_batch in record_batches:
        found.add(record_batch)
    returned: RowPositions = pickle.loads(pickle.dumps(found))  # noqa: S301 # our own
    return returned


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_row_ids_are_those_that_duckdb_tells(
    catalog: Catalog, oracle: Oracle, lived_lake: Lake, limits: SliceLimits
) -> None:
    rows = pa.Table.from_batches(read(lived_lake.table("t"), ["id"], None, limits))
    oracle.attach(catalog.attach, data_path=catalog.data_path)

    expected = oracle.query("SELECT id, rowid FROM t ORDER BY id")

    found = zip(rows.column("id").to_pylist(), rows.column(ROW_IDS).to_pylist(), strict=True)
    assert sorted(found) == expected


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_rows_end_where_slices_found_them(lived_lake: Lake, limits: SliceLimits) -> None:
    table = lived_lake.table("t")
    matching, others = table.count(CONDITION), table.read(filter=f"NOT ({CONDITION})")
    found = read(table, [], CONDITION, limits)
    places = pa.Table.from_batches(found).select([DATA_FILE_IDS, INLINED_TABLES]).to_pylist()
    assert {sum(place is not None for place in row.values()) for row in places} == {1}
    assert all(any(row[kind] is not None for row in places) for kind in (DATA_FILE_IDS, INLINED_TABLES))

    with lived_lake.transaction() as tx:
        assert tx.end_rows("t", positions_of(found), tx.base.snapshot_id) == matching == sum(b.num_rows for b in found)

    assert lived_lake.table("t").read().sort_by("id").equals(others.sort_by("id"))


def test_row_that_has_ended_does_not_end_again(lived_lake: Lake) -> None:
    positions = positions_of(read(lived_lake.table("t"), [], CONDITION, LIMITS[0]))

    with lived_lake.transaction() as tx:
        assert tx.delete("t", "id = 2 OR id = 30000") == 2
        assert tx.end_rows("t", positions, tx.base.snapshot_id) == len(positions) - 2
        assert tx.end_rows("t", positions, tx.base.snapshot_id) == 0

    assert lived_lake.table("t").count(CONDITION) == 0


def test_row_of_a_file_that_another_has_ended_does_not_end_again(lived_lake: Lake) -> None:
    positions = positions_of(read(lived_lake.table("t"), [], "id >= 20050 AND id < 20150", LIMITS[0]))
    assert not list(positions.inlined())
    lived_lake.delete("t", "id = 20060")

    with lived_lake.transaction() as tx:
        assert tx.end_rows("t", positions, tx.base.snapshot_id) == len(positions) - 1


@pytest.mark.parametrize("meanwhile", ["update", "flush"])
def test_inlined_rows_that_moved_since_they_were_read_are_a_conflict(lived_lake: Lake, meanwhile: str) -> None:
    """Their new versions have the same row ids, and flushed ones are not there to be ended."""
    table = lived_lake.table("t")
    positions = positions_of(read(table, [], "id >= 30000", LIMITS[0]))
    assert len(positions)
    before = lived_lake.table("t").count()
    if meanwhile == "update":
        lived_lake.update("t", {"id": 40000}, "id = 30000")
    else:
        lived_lake.flush_inlined("t")

    with lived_lake.transaction() as tx, pytest.raises(CommitConflict, match="read them again"):
        tx.end_rows("t", positions, table.snapshot.snapshot_id)

    assert lived_lake.table("t").count() == before


def test_inlined_rows_that_are_flushed_under_a_transaction_are_a_conflict(lived_lake: Lake) -> None:
    positions = positions_of(read(lived_lake.table("t"), [], "id >= 30000", LIMITS[0]))

    with lived_lake.transaction() as tx:
        base = tx.base.snapshot_id
        with Lake.open(lived_lake.database.url.url.render_as_string(hide_password=False)) as other:
            other.flush_inlined("t")
        with pytest.raises(CommitConflict, match="flushed meanwhile"):
            tx.end_rows("t", positions, base)


def test_rows_of_several_places_are_told_apart() -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            "\0data_file_id": pa.array([7, None, 8, 7], pa.int64()),
            "\0inlined_table": pa.array([None, "i", None, None], pa.string()),
            "\0position": pa.array([5, 3, 1, 2], pa.int64()),
        }
    )

    found = positions_of([rows, rows])

    assert {place: positions.tolist() for place, positions in found.of_files()} == {7: [2, 5], 8: [1]}
    assert {name: row_ids.tolist() for name, row_ids in found.inlined()} == {"i": [3]}


def test_place_that_the_table_has_not_is_refused(lived_lake: Lake) -> None:
    unknown_file, unknown_table, beyond = RowPositions(), RowPositions(), RowPositions()
    unknown_file.add_of_file(DataFileId(12345), np.array([0]))
    unknown_table.add_inlined("ducklake_inlined_data_9_9", np.array([0]))
    file = lived_lake.table("t").files()[0]
    beyond.add_of_file(file.data_file_id, np.array([file.record_count]))

    with lived_lake.transaction() as tx:
        with pytest.raises(ObjectNotFound, match=r"'main\.t' has no data file 12345 at snapshot \d+"):
            tx.end_rows("t", unknown_file, tx.base.snapshot_id)
        with pytest.raises(CommitConflict, match="inlined table 'ducklake_inlined_data_9_9' is not there"):
            tx.end_rows("t", unknown_table, tx.base.snapshot_id)
        with pytest.raises(InvalidInput, match="out of range"):
            tx.end_rows("t", beyond, tx.base.snapshot_id)


def test_file_of_another_kind_is_told_from_one_that_is_gone(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.set_option("data_inlining_row_limit", 0)
        for name in ("t", "other"):
            lake.create_table(name, {"i": "int64"})
            for first in (0, 10, 20):
                lake.append(name, {"i": list(range(first, first + 10))})
        lake.delete("t", "i < 9")
        [deleted, *merged] = [file.data_file_id for file in lake.table("t").files()]
        others = lake.table("other").files()[0].data_file_id
        [(delete_file,)] = catalog.query("SELECT delete_file_id FROM ducklake_delete_file")
        lake.merge_adjacent_files("t")
        lake.rewrite_data_files("t", delete_threshold=0.5)
        lake.cleanup_old_files(cleanup_all=True)

        with lake.transaction() as tx:
            for gone in (deleted, *merged):
                with pytest.raises(CommitConflict, match=f"data file {gone} .*read them again"):
                    tx.delete_positions("t", gone, [0])
            for never in (others, delete_file, -1, 2**40):
                with pytest.raises(ObjectNotFound, match=f"has no data file {never} "):
                    tx.delete_positions("t", never, [0])
