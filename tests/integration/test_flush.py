"""Flush by us alone: what it counts, which tables it takes, how many files it makes, and that nobody sees it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core import FlushResult, InlinedState, Lake
from ducklake_core.catalog.inlined_reader import read_row_versions
from ducklake_core.errors import CatalogUnavailable, CorruptCatalog, ObjectNotFound, UnreadableFile
from ducklake_core.files.open_file import footer_size
from ducklake_core.files.storage import Storage
from ducklake_core.model import SnapshotId
from ducklake_core.spec.thresholds import PARSED_TEXTS
from ducklake_core.spec.types import arrow_type
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake, stored_files
from tests.fixtures.databases import run
from tests.fixtures.oracle import Oracle
from tests.fixtures.pairs import rows_by_oracle, texts_of
from tests.fixtures.values import SCALAR_TYPES, column_of, sample_array

EMPTY = InlinedState(rows=0, ended_rows=0, file_deletes=0, size_bytes=0, oldest=None)


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64", "s": "varchar"})
        yield lake


def rows(*numbers: int) -> pa.Table:
    return pa.table({"i": list(numbers), "s": [f"row {i}" for i in numbers]})


def history(lake: Lake, table: str = "t") -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for snapshot in lake.snapshots():
        try:
            data = lake.table(table, at=snapshot.snapshot_id).read().to_pylist()
        except ObjectNotFound:
            continue
        found[snapshot.snapshot_id] = sorted(data, key=repr)
    return found


def test_a_thousand_small_batches_become_one_file(catalog: Catalog, lake: Lake) -> None:
    for batch in range(1000):
        lake.append("t", rows(*range(10 * batch, 10 * batch + 10)))
    assert stored_files(catalog) == set()

    result = lake.flush_inlined("t")

    assert (result.rows, result.data_files, result.delete_files) == (10_000, 1, 0)
    [path] = stored_files(catalog)
    assert result.size_bytes == path.stat().st_size
    assert pq.read_metadata(path).num_rows == 10_000
    assert lake.table("t").count() == 10_000
    assert lake.table("t", at=501).count() == 5_000
    check_lake(catalog)


def test_state_tells_what_there_is_to_flush(lake: Lake) -> None:
    assert lake.inlined_state("t") == EMPTY
    before = datetime.now(UTC) - timedelta(seconds=1)
    lake.append("t", rows(1, 2, 3))
    lake.append("t", rows(*range(10, 40)))
    lake.delete("t", "i = 1 OR i = 11 OR i = 12")
    lake.update("t", {"s": "new"}, "i = 2")

    state = lake.inlined_state("main.t")

    assert (state.rows, state.ended_rows, state.file_deletes) == (4, 2, 2)
    assert 30 < state.size_bytes < 2000
    assert state.oldest == lake.snapshots()[2].snapshot_time
    assert before < state.oldest < datetime.now(UTC)
    result = lake.flush_inlined("t")
    assert (result.rows, result.file_deletes, result.data_files, result.delete_files) == (4, 2, 1, 2)
    assert lake.inlined_state("t") == EMPTY


def test_state_of_rows_whose_snapshot_has_expired(catalog: Catalog, lake: Lake, oracle: Oracle) -> None:
    lake.append("t", rows(1))
    lake.append("t", rows(2))
    oracle.attach(catalog.attach)
    oracle.execute("CALL ducklake_expire_snapshots('lake', versions => [2])")

    state = lake.inlined_state("t")

    assert state.rows == 2
    assert state.oldest == lake.snapshots()[-1].snapshot_time


def test_every_table_but_those_that_are_exempt(catalog: Catalog, lake: Lake) -> None:
    lake.create_schema("other one")
    for name in ("u", '"other one"."odd ""name"""'):
        lake.create_table(name, {"i": "int64"})
        lake.append(name, {"i": [1]})
    lake.append("t", rows(1, 2))
    lake.set_option("auto_compact", value=False, table="u")

    result = lake.flush_inlined()

    assert (len(result.snapshots), result.rows, result.data_files) == (2, 3, 2)
    assert lake.inlined_state("u").rows == 1
    assert lake.flush_inlined("u").rows == 1  # who names it means it
    lake.append('"other one"."odd ""name"""', {"i": [2]})
    assert lake.flush_inlined('"other one"."odd ""name"""').rows == 1
    assert lake.flush_inlined() == FlushResult()
    check_lake(catalog)


def test_a_table_that_is_not_there(lake: Lake) -> None:
    with pytest.raises(ObjectNotFound, match=r"did you mean 'main\.t'"):
        lake.flush_inlined("tt")
    with pytest.raises(ObjectNotFound):
        lake.inlined_state("tt")


def test_a_lake_that_requires_messages(lake: Lake) -> None:
    lake.append("t", rows(1))
    lake.set_option("require_commit_message", value=True)

    [snapshot] = lake.flush_inlined("t").snapshots

    assert lake.snapshots()[-1].message == "flush inlined rows of main.t"
    assert lake.snapshots()[-1].snapshot_id == snapshot.snapshot_id


def test_files_roll_at_their_target_size_and_deletes_follow_them(catalog: Catalog, lake: Lake) -> None:
    lake.set_option("data_inlining_row_limit", 100_000)
    lake.set_option("target_file_size", 20_000)
    lake.set_option("parquet_row_group_size", 500)
    lake.append("t", rows(*range(5000)))
    lake.delete("t", "i < 10 OR i = 2000 OR i > 4990")
    before = history(lake)

    result = lake.flush_inlined("t")

    assert result.rows == 5000
    assert result.data_files >= 3
    assert 2 <= result.delete_files <= 3
    assert {i: seen for i, seen in history(lake).items() if i in before} == before
    check_lake(catalog)


@pytest.mark.parametrize("memory_bytes", [1, 2**20, 2**28])
def test_chunks_do_not_matter(catalog: Catalog, lake: Lake, memory_bytes: int) -> None:
    lake.set_option("data_inlining_row_limit", 1000)
    lake.append("t", rows(*range(50)))
    lake.append("t", rows(*range(50, 90)))
    lake.update("t", {"s": "new"}, "i < 20")
    lake.delete("t", "i > 80")
    before = history(lake)

    result = lake.flush_inlined("t", memory_bytes=memory_bytes)

    assert (result.rows, result.data_files, result.delete_files) == (110, 1, 1)
    assert {i: seen for i, seen in history(lake).items() if i in before} == before
    check_lake(catalog)


def test_nan_that_comes_late_is_found_by_duckdb(catalog: Catalog, lake: Lake, oracle: Oracle) -> None:
    """A file has no statistics of a column with NaN: what the first chunk cannot know makes a second file."""
    lake.create_table("f", {"i": "int64", "x": "float64"})
    for i, x in enumerate([1.0, 2.0, float("nan"), float("-inf"), -0.0]):
        lake.append("f", {"i": [i], "x": [x]})

    result = lake.flush_inlined("f", memory_bytes=1)

    assert result.data_files == 2
    oracle.attach(catalog.attach)
    assert oracle.query("SELECT i FROM f WHERE x > 5") == [(2,)]
    assert oracle.query("SELECT i, x::VARCHAR FROM f ORDER BY i")[2:] == [(2, "nan"), (3, "-inf"), (4, "-0.0")]


def test_nans_that_take_turns_do_not_make_a_file_each(lake: Lake) -> None:
    lake.create_table("f", {"x": "float64", "y": "float32", "z": "float64"})
    nan = float("nan")
    for i in range(12):
        lake.append("f", {"x": [nan if i % 2 else 0.0], "y": [0.0 if i % 2 else nan], "z": [0.0]})

    result = lake.flush_inlined("f", memory_bytes=1)

    assert result.data_files == 2
    written = [pq.read_metadata(file.path).row_group(0) for file in lake.table("f").files()]
    assert [[m.column(i).is_stats_set for i in range(3)] for m in written] == [
        [True, False, True],
        [False, False, True],
    ]


def test_sorted_table_keeps_every_snapshot(catalog: Catalog, lake: Lake, oracle: Oracle) -> None:
    """The extension itself computes wrong positions here (duckdb/ducklake#1385)."""
    lake.create_table("d", {"i": "int64", "at": "timestamp", "s": "varchar"}, sorted_by=["at DESC", "s"])
    lake.set_option("data_inlining_row_limit", 100)
    start = datetime(999, 12, 31, 23, 0, 0)  # noqa: DTZ001 # a timestamp without zone
    times = [start + timedelta(hours=h) for h in (1, 0, 9, -3, 5)]
    lake.append("d", pa.table({"i": range(5), "at": pa.array(times, pa.timestamp("us")), "s": list("abcde")}))
    lake.update("d", {"s": "z"}, "i = 1 OR i = 3")
    lake.delete("d", "i = 2 OR i = 4")
    lake.append("d", pa.table({"i": [9], "at": pa.array([None], pa.timestamp("us")), "s": ["n"]}))
    before = history(lake, "d")
    oracle.attach(catalog.attach)
    seen = oracle.query("SELECT * FROM lake.table_changes('d', 2, 6) ORDER BY ALL")

    lake.flush_inlined("d")

    assert {i: found for i, found in history(lake, "d").items() if i in before} == before
    assert oracle.query("SELECT * FROM lake.table_changes('d', 2, 6) ORDER BY ALL") == seen
    for snapshot, expected in before.items():
        assert sorted(oracle.query(f"SELECT i FROM d AT (VERSION => {snapshot})")) == sorted(
            (row["i"],) for row in expected
        )
    [file] = lake.table("d").files()
    order = pq.read_table(file.path)["at"].to_pylist()
    assert order[-1] is None
    assert order[:-1] == sorted(order[:-1], reverse=True)


@pytest.mark.parametrize("place", ["open_file.footer_size", "delete_files.footer_size_in"])
def test_a_file_whose_footer_cannot_be_read_is_removed(
    catalog: Catalog, lake: Lake, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    lake.append("t", rows(1, 2))
    lake.delete("t", "i = 1")

    def fail(*_: object) -> int:
        raise OSError("no reading today")

    monkeypatch.setattr(f"ducklake_core.files.{place}", fail)
    with pytest.raises(OSError, match="no reading today"):
        lake.flush_inlined("t")

    assert stored_files(catalog) == set()


def test_what_cannot_be_removed_does_not_hide_why(
    catalog: Catalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files are done when the third fails, and removing the first fails, too."""
    lake.create_table("p", {"i": "int64", "k": "varchar"}, partition_by=["k"])
    lake.append("p", {"i": [1, 2, 3], "k": ["a", "b", "c"]})
    sizes, removals = [], []

    def fail_late(*arguments: Any) -> int:  # Any: only passed on
        sizes.append(arguments)
        if len(sizes) == 3:
            raise OSError("no reading today")
        return footer_size(*arguments)

    def fail_early(storage: Storage, path: str) -> None:
        removals.append(path)
        if len(removals) == 2:
            raise OSError("no removing today")
        remove(storage, path)

    remove = Storage.remove
    monkeypatch.setattr("ducklake_core.files.open_file.footer_size", fail_late)
    monkeypatch.setattr(Storage, "remove", fail_early)
    with pytest.raises(OSError, match="no reading today"):
        lake.flush_inlined("p")

    assert len(removals) == 3
    assert len(stored_files(catalog)) == 1


def test_a_failed_flush_leaves_no_file(catalog: Catalog, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.append("t", rows(1, 2))
    lake.delete("t", "i = 1")

    def fail(*_: object) -> None:
        raise RuntimeError("no commit today")

    monkeypatch.setattr(lake.committer, "run", fail)
    with pytest.raises(RuntimeError):
        lake.flush_inlined("t")

    assert stored_files(catalog) == set()
    assert lake.table("t").count() == 1


@pytest.mark.parametrize("deleted", [0, 6], ids=["no delete file", "a delete file"])
def test_deletes_of_a_file_that_was_rewritten(catalog: Catalog, lake: Lake, oracle: Oracle, deleted: int) -> None:
    """A rewrite ends a file and its delete file, and its inlined deletes stay: history must have both."""
    lake.set_option("data_inlining_row_limit", 5)
    lake.append("t", rows(*range(10)))
    if deleted:
        lake.delete("t", f"i < {deleted}")
    lake.delete("t", "i = 7")
    oracle.attach(catalog.attach)
    oracle.execute("CALL ducklake_rewrite_data_files('lake', 't', delete_threshold => 0.05)")
    oracle.execute("DELETE FROM t WHERE i = 9")
    before = history(lake)
    assert lake.inlined_state("t").file_deletes == 2

    lake.flush_inlined("t")

    assert {i: found for i, found in history(lake).items() if i in before} == before
    for snapshot, expected in before.items():
        # No ORDER BY: DuckDB sorts by the table's bounds, which a rewrite narrows to those of the head.
        found = oracle.query(f"SELECT i FROM t AT (VERSION => {snapshot})")
        assert sorted(found) == sorted((row["i"],) for row in expected)
    ended = catalog.query("SELECT end_snapshot FROM ducklake_data_file ORDER BY data_file_id")
    assert catalog.query("SELECT end_snapshot FROM ducklake_delete_file ORDER BY data_file_id") == ended
    check_lake(catalog)


def test_row_versions_that_are_equal_in_all_that_orders_them(catalog: Catalog, lake: Lake) -> None:
    """Nobody should write such, but a flush must not lose one where a page ends between them."""
    lake.append("t", rows(1, 2, 3))
    run(catalog, "UPDATE ducklake_inlined_data_1_1 SET row_id = 1")

    assert lake.flush_inlined("t", memory_bytes=1).rows == 3
    assert sorted(lake.table("t").read()["i"].to_pylist()) == [1, 2, 3]


def test_a_row_that_was_not_read_is_not_removed(catalog: Catalog, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.append("t", rows(1, 2))
    lake.append("t", rows(3))

    def forget_the_last(database: Any, inlined: Any, _: Any, chunk_bytes: int) -> Any:  # Any: only passed on
        return read_row_versions(database, inlined, SnapshotId(2), chunk_bytes)

    monkeypatch.setattr("ducklake_core.flush.read_row_versions", forget_the_last)
    with pytest.raises(CorruptCatalog, match="has 3 row versions of snapshots up to 3, but 2 were written"):
        lake.flush_inlined("t")

    assert stored_files(catalog) == set()
    assert lake.inlined_state("t").rows == 3
    monkeypatch.undo()
    assert lake.flush_inlined("t").rows == 3


def test_a_flush_is_done_even_when_nobody_tidies_up(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.append("t", rows(1))

    def fail(*_: object) -> None:
        raise CatalogUnavailable("no connection today")

    monkeypatch.setattr("ducklake_core.flush_all.drop_superseded", fail)

    assert lake.flush_inlined("t").rows == 1


def test_a_table_that_fails_does_not_keep_the_others(catalog: Catalog, lake: Lake) -> None:
    for name in ("a", "b"):
        lake.create_table(name, {"i": "int64"})
        lake.append(name, {"i": list(range(40))})
        lake.delete(name, "i < 20")
        lake.delete(name, "i = 30")
    lake.append("t", rows(1, 2))
    for path in stored_files(catalog):
        if path.name.endswith("-delete.parquet"):
            path.unlink()

    with pytest.raises(UnreadableFile, match="cannot read delete file 1 "):
        lake.flush_inlined()

    assert lake.inlined_state("t").rows == 0
    assert lake.table("t").count() == 2


def test_a_chunk_of_rows_of_uneven_size_is_not_larger_than_asked_for(lake: Lake) -> None:
    lake.set_option("data_inlining_row_limit", 10_000)
    lake.append("t", pa.table({"i": range(3000), "s": ["x"] * 1000 + ["y" * 10_000] * 100 + ["z"] * 1900}))
    [inlined] = lake.table("t").version.inlined_tables

    chunks = list(read_row_versions(lake.database, inlined, SnapshotId(2), 200_000))

    assert max(chunk.rows.nbytes for chunk in chunks) < 300_000
    assert np.concatenate([chunk.row_ids for chunk in chunks]).tolist() == list(range(3000))


def test_another_lake_object_survives_tables_that_a_flush_drops(catalog: Catalog, lake: Lake) -> None:
    """Definitions that it remembers name a table of inlined rows that is gone."""
    lake.append("t", rows(1, 2, 3))
    lake.add_column("t", "x", "int64", 5)
    with Lake.open(catalog.url) as other:
        other.append("t", {"i": [4], "s": ["row 4"], "x": [6]})
        assert other.table("t").count() == 4

        result = lake.flush_inlined("t", keep_superseded=0)

        assert result.dropped_tables == ("ducklake_inlined_data_1_1",)
        assert other.table("t").count() == 4
        other.append("t", {"i": [5], "s": ["row 5"], "x": [7]})
        other.delete("t", "i = 1")
        other.update("t", {"x": 0}, "i = 2 OR i = 5")
        assert other.inlined_state("t").rows == 3
        assert other.flush_inlined("t").rows == 3
        assert sorted(other.table("t").read()["x"].to_pylist()) == [0, 0, 5, 6]
    check_lake(catalog)


def test_partitions_stay_together_over_chunks(catalog: Catalog, lake: Lake) -> None:
    lake.create_table("p", {"i": "int64", "k": "varchar"}, partition_by=["k"])
    lake.set_option("data_inlining_row_limit", 1000)
    lake.append("p", {"i": list(range(200)), "k": [f"k{i % 3}" for i in range(200)]})

    result = lake.flush_inlined("p", memory_bytes=2**16)

    assert result.data_files == 3
    directories = {path.parent.name for path in stored_files(catalog)}
    assert directories == {"k=k0", "k=k1", "k=k2"}
    assert lake.table("p").count("k = 'k1'") == 67
    check_lake(catalog)


def test_files_of_an_encrypted_lake_are_encrypted(tmp_path: Path, oracle: Oracle) -> None:
    oracle.attach(f"ducklake:sqlite:{tmp_path}/e.sqlite", data_path=f"{tmp_path}/data/", encrypted=True)
    oracle.execute("CREATE TABLE t (i BIGINT, s VARCHAR)")
    oracle.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    oracle.execute("DELETE FROM t WHERE i = 1")
    with Lake.open(f"sqlite:///{tmp_path}/e.sqlite") as lake:
        result = lake.flush_inlined()
        assert (result.data_files, result.delete_files) == (1, 1)
        assert lake.table("t").read().to_pylist() == [{"i": 2, "s": "b"}]
    assert oracle.query("FROM t") == [(2, "b")]
    assert oracle.query("FROM t AT (VERSION => 2) ORDER BY i") == [(1, "a"), (2, "b")]
    assert all(path.read_bytes()[:4] == b"PARE" for path in (tmp_path / "data").rglob("*.parquet"))


NESTED = (
    "struct(a int32, b varchar)",
    "varchar[]",
    "float64[][]",
    "map(varchar, date)",
    "struct(d date, t timestamp)[]",
)


def test_values_of_every_type_stay_what_they_are(catalog: Catalog, lake: Lake, oracle: Oracle) -> None:
    scalars = [t for t in SCALAR_TYPES if not (catalog.name == "postgres" and t == "time_ns")]
    samples = {type_: sample_array(type_) for type_ in scalars}
    count = max(len(array) for array in samples.values())
    data = {
        f"c{i}": array.take(pa.array([n % len(array) for n in range(count)]))
        for i, array in enumerate(samples.values())
    }
    lake.set_option("data_inlining_row_limit", 1000)
    lake.create_table("every", {f"c{i}": type_ for i, type_ in enumerate(scalars)})
    lake.append("every", pa.table(data))
    lake.create_table("nested", {f"n{i}": type_ for i, type_ in enumerate(NESTED)})
    for i in range(3):
        lake.append("nested", nested_row(i))
    lake.append("nested", pa.concat_tables([nested_row(i) for i in range(2 * PARSED_TEXTS)]))
    lake.delete("nested", "n0 IS NULL")
    oracle.attach(catalog.attach)
    before = {name: seen(lake, oracle, name) for name in ("every", "nested")}

    result = lake.flush_inlined()

    assert result.rows == count + 2 * PARSED_TEXTS + 3
    assert {name: seen(lake, oracle, name) for name in before} == before


def nested_row(number: int) -> pa.Table:
    values = [
        {"a": number, "b": ["it's", 'a "quote"', "back\\slash", None, ""][number % 5]} if number % 7 else None,
        [["x", None], [], None, ["[,]", "{'a':1}"]][number % 4],
        [[1.5, float("nan")], [], None, [float("-inf"), -0.0]][: number % 5],
        [("k", None), (f"k={number}", datetime(2024, 2, 29, tzinfo=UTC).date())][: number % 3],
        [{"d": None, "t": datetime(1, 1, 1)}] if number % 2 else None,  # noqa: DTZ001 # no zone
    ]
    fields = [pa.field(f"n{i}", arrow_type(column_of(type_))) for i, type_ in enumerate(NESTED)]
    columns = [pa.array([value], field.type) for value, field in zip(values, fields, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))


def seen(lake: Lake, oracle: Oracle, name: str) -> tuple[object, object]:
    """Return what we read of a table as it was before its rows were deleted, and DuckDB now."""
    inserted = max(s.snapshot_id for s in lake.snapshots() if "inlined_insert" in (s.changes or ""))
    table = lake.table(name, at=inserted)
    columns = table.version.columns
    ours = sorted(texts_of(table.read(), columns), key=repr)
    return ours, sorted(rows_by_oracle(oracle, name, columns), key=repr)
