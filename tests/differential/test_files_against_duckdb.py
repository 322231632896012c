"""DuckDB reads every file we write, and we every file it writes; statistics and partition values are the same."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ducklake_core.errors import UnreadableFile
from ducklake_core.files.delete_files import merge_deletes, write_delete_file
from ducklake_core.files.parquet_reader import ReadRequest, read_data_file
from ducklake_core.files.parquet_writer import FileLayout, write_data_files
from ducklake_core.model import Column, ColumnStats, PartitionKey, SnapshotId
from ducklake_core.spec.arrays import single
from ducklake_core.spec.partition import parse_partition_expression, partition_values
from ducklake_core.spec.paths import hive_directory, hive_keys
from ducklake_core.spec.text import from_text, to_text
from ducklake_core.spec.types import arrow_type
from ducklake_core.spec.write_options import WriteOptions
from tests.fixtures.by_hand import CATALOG, HandLake, attach_hand_lake, duckdb_type, quoted, sql_text
from tests.fixtures.oracle import Oracle
from tests.fixtures.values import SCALAR_TYPES, arrays, column_of, columns, sample_array, type_nodes

# What DuckDB's extension cannot write, or writes with loss: it gets other values, and we read what it made of them.
NOT_WRITTEN_BY_DUCKDB = ("time_ns",)  # invalidates the DuckDB instance
WRITTEN_BY_DUCKDB = tuple(t for t in SCALAR_TYPES if t not in NOT_WRITTEN_BY_DUCKDB)
TAME_SAMPLES = {
    "int128": ["-5", "9007199254740992"],  # goes through DOUBLE
    "uint128": ["0", "9007199254740992"],
    "interval": ["1 year 2 months 3 days 04:05:06.007", "00:00:00"],  # Parquet has no negative ones
    "timestamp_s": ["2024-02-29 12:34:56", "0044-03-15 (BC) 00:00:00"],  # infinity cannot be converted
}


@pytest.fixture(scope="module")
def hand_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandLake]:
    """Give one lake to all tests: each makes its own tables."""
    with Oracle() as oracle:
        yield attach_hand_lake(oracle, tmp_path_factory.mktemp("lake"))


def texts_of(type_: str) -> list[str | None]:
    return list(to_text(sample_array(type_), column_of(type_)).to_pylist())


def tame_texts_of(type_: str) -> list[str | None]:
    # DuckDB names the partition of both zeros by the one it sees first.
    return [*TAME_SAMPLES[type_], None] if type_ in TAME_SAMPLES else [t for t in texts_of(type_) if t != "-0.0"]


def in_containers(values: pa.Array, table_columns: Sequence[Column]) -> pa.Table:
    """Put each value into a scalar column, a list, a struct and a map."""
    _, lists, structs, maps = (arrow_type(c) for c in table_columns)
    each = pa.array(range(len(values) + 1), pa.int32())
    keys = pa.array(["k"] * len(values))
    columns_ = {
        "c": values,
        "l": pa.ListArray.from_arrays(each, values, type=lists),
        "s": pa.StructArray.from_arrays([values], fields=list(structs)),
        "m": pa.MapArray.from_arrays(each, keys, values, type=maps),
    }
    return pa.table(columns_)


def containers(type_: str) -> dict[str, str]:
    return {"c": type_, "l": f"{type_}[]", "s": f"struct(x {type_})", "m": f"map(varchar, {type_})"}


PLACES = ("c", "l[1]", "s.x", "m['k']")


# -------------------------------------------------------------------------------------- ours, read by DuckDB


@pytest.mark.parametrize("type_", SCALAR_TYPES)
def test_duckdb_reads_and_finds_every_value_of_ours(hand_lake: HandLake, type_: str) -> None:
    table, layout = hand_lake.create_table(containers(type_))
    (file,) = write_data_files(hand_lake.storage, layout, in_containers(sample_array(type_), layout.columns))

    hand_lake.register(table, file)

    assert hand_lake.texts(table, *PLACES) == [texts_of(type_)] * 4
    name = duckdb_type(column_of(type_))
    filters = [f"c = CAST({sql_text(t)} AS {name})" if t is not None else "c IS NULL" for t in texts_of(type_)]
    counts = ", ".join(f"(SELECT count(*) FROM {table} WHERE {same})" for same in filters)
    assert 0 not in hand_lake.oracle.query(f"SELECT {counts}")[0]


def test_duckdb_reads_our_geometries(hand_lake: HandLake) -> None:
    table, layout = hand_lake.create_table({"g": "geometry", "l": "geometry[]"})
    point = bytes.fromhex("0101000000000000000000F03F0000000000000040")
    rows = pa.table({"g": [point, None], "l": pa.array([[point], None], arrow_type(layout.columns[1]))})
    (file,) = write_data_files(hand_lake.storage, layout, rows)

    data_file, _ = hand_lake.register(table, file)

    assert hand_lake.texts(table, "g", "l[1]") == [["POINT (1 2)", None]] * 2
    hand_lake.oracle.execute(f"INSERT INTO {table} VALUES ('POINT (1 2)', ['POINT (1 2)'])")
    theirs = next(f for f in hand_lake.data_files(table) if f.data_file_id != data_file)
    back = read_data_file(hand_lake.storage, theirs, ReadRequest(layout.columns))
    assert back.to_pydict() == {"g": [point], "l": [[point]]}


@settings(max_examples=15)
@given(data=st.data())
def test_duckdb_reads_any_nesting_of_ours(hand_lake: HandLake, data: st.DataObject) -> None:
    # Equal keys are no map in DuckDB, and its text of json and bytes inside of lists cannot be read back.
    scalars = [t for t in SCALAR_TYPES if t not in ("json", "blob")]
    column = data.draw(columns(type_nodes(scalars)).filter(lambda c: "type='map'" not in repr(c)))
    array = data.draw(arrays(column, 3))
    table, layout = hand_lake.create_table({"c": type_text(column)})
    (file,) = write_data_files(hand_lake.storage, layout, pa.table({"c": array}))

    hand_lake.register(table, file)

    theirs = from_text(pa.array(hand_lake.texts(table, "c")[0], pa.string()), column)
    assert to_text(theirs, column).to_pylist() == to_text(array, column).to_pylist()


def type_text(column: Column) -> str:
    """Return the type text of a column, which `parse_type` reads back."""
    if column.type == "list":
        return f"{type_text(column.children[0])}[]"
    if column.type == "struct":
        return "struct(" + ", ".join(f"{quoted(c.name)} {type_text(c)}" for c in column.children) + ")"
    return column.type


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4", "lz4_raw"])
@pytest.mark.parametrize("version", ["V1", "V2"])
def test_duckdb_reads_every_codec_and_version(hand_lake: HandLake, codec: str, version: str) -> None:
    table, layout = hand_lake.create_table({"i": "int64", "s": "varchar"})
    options = WriteOptions.from_options({"parquet_compression": codec, "parquet_version": version})
    rows = pa.table({"i": pa.array(range(3000)), "s": [str(i % 7) for i in range(3000)]})
    (file,) = write_data_files(hand_lake.storage, replace(layout, options=options), rows)

    hand_lake.register(table, file)

    assert hand_lake.oracle.query(f"SELECT sum(i), count(DISTINCT s) FROM {table}") == [(4498500, 7)]


def test_duckdb_takes_our_row_ids(hand_lake: HandLake) -> None:
    table, layout = hand_lake.create_table({"i": "int64"})
    ids = {"row_ids": pa.array([70, 60]), "snapshot_ids": pa.array([1, 2])}
    (file,) = write_data_files(hand_lake.storage, layout, pa.table({"i": [1, 2]}), **ids)

    hand_lake.register(table, file)

    assert hand_lake.oracle.query(f"SELECT rowid, i FROM {table} ORDER BY i") == [(70, 1), (60, 2)]


def test_duckdb_obeys_our_delete_files_at_every_snapshot(hand_lake: HandLake) -> None:
    table, layout = hand_lake.create_table({"i": "int64"})
    (file,) = write_data_files(hand_lake.storage, layout, pa.table({"i": list(range(6))}))
    data_file, inserted = hand_lake.register(table, file)
    path = layout.directory + file.path

    first = write_delete_file(hand_lake.storage, layout.directory, path, np.array([1, 4]))
    deleted = hand_lake.register_deletes(table, data_file, first)
    both = merge_deletes(np.array([1, 4]), np.full(2, deleted), np.array([0]), SnapshotId(deleted + 1))
    second = write_delete_file(hand_lake.storage, layout.directory, path, *both)
    again = hand_lake.register_deletes(table, data_file, second, begin=deleted)

    def rows(snapshot: int) -> list[int]:
        found = hand_lake.oracle.query(f"SELECT i FROM {table} AT (VERSION => {snapshot}) ORDER BY i")
        assert hand_lake.oracle.query(f"SELECT count(*) FROM {table} AT (VERSION => {snapshot})") == [(len(found),)]
        return [i for (i,) in found]

    assert [rows(s) for s in (inserted, deleted, again)] == [[0, 1, 2, 3, 4, 5], [0, 2, 3, 5], [2, 3, 5]]


def test_encrypted_files_of_ours_are_read_and_of_duckdb_refused_by_name(oracle: Oracle, tmp_path: Path) -> None:
    lake = attach_hand_lake(oracle, tmp_path, encrypted=True)
    table, layout = lake.create_table({"i": "int64"})
    encrypted = replace(layout, options=WriteOptions(encrypted=True))
    (file,) = write_data_files(lake.storage, encrypted, pa.table({"i": [1, 2, 3]}))
    data_file, _ = lake.register(table, file)
    deletes = write_delete_file(
        lake.storage, layout.directory, layout.directory + file.path, np.array([1]), encrypted=True
    )

    lake.register_deletes(table, data_file, deletes)

    assert oracle.query(f"SELECT i FROM {table}") == [(1,), (3,)]
    oracle.execute(f"INSERT INTO {table} VALUES (4)")
    with pytest.raises(UnreadableFile, match="files that DuckDB encrypted"):
        read_data_file(lake.storage, lake.data_files(table)[-1], ReadRequest(layout.columns))


# ----------------------------------------------------------------------------------- DuckDB's, read by us


@pytest.mark.parametrize("type_", WRITTEN_BY_DUCKDB)
def test_we_read_what_duckdb_wrote_as_it_does(hand_lake: HandLake, type_: str) -> None:
    table, layout = insert_by_duckdb(hand_lake, type_)

    (file,) = hand_lake.data_files(table)
    back = read_data_file(hand_lake.storage, file, ReadRequest(layout.columns))

    c, lists, structs, maps = (single(back.column(name)) for name in "clsm")
    places = [c, lists.values, structs.field(0), maps.items]  # one value per row in each
    assert [to_text(values, column_of(type_)).to_pylist() for values in places] == hand_lake.texts(table, *PLACES)


def insert_by_duckdb(lake: HandLake, type_: str) -> tuple[str, FileLayout]:
    table, layout = lake.create_table(containers(type_))
    name = duckdb_type(column_of(type_))
    values = [f"CAST({sql_text(text)} AS {name})" for text in tame_texts_of(type_)]
    rows = ", ".join(f"({v}, [{v}], {{'x': {v}}}, MAP {{'k': {v}}})" for v in values)
    lake.oracle.execute(f"INSERT INTO {table} VALUES {rows}")
    return table, layout


@pytest.mark.parametrize("type_", WRITTEN_BY_DUCKDB)
def test_statistics_are_duckdbs(hand_lake: HandLake, type_: str) -> None:
    theirs_table, _ = insert_by_duckdb(hand_lake, type_)
    (theirs,) = hand_lake.data_files(theirs_table)
    _, layout = hand_lake.create_table(containers(type_))
    values = from_text(pa.array(tame_texts_of(type_), pa.string()), column_of(type_))

    (ours,) = write_data_files(hand_lake.storage, layout, in_containers(values, layout.columns))

    found = hand_lake.oracle.query(
        "SELECT column_id, value_count, null_count, min_value, max_value, contains_nan"
        f" FROM {CATALOG}.ducklake_file_column_stats WHERE data_file_id = {theirs.data_file_id} ORDER BY column_id"
    )
    assert [comparable(s, type_) for s in ours.column_stats] == [comparable(ColumnStats(*row), type_) for row in found]


def comparable(stats: ColumnStats, type_: str) -> ColumnStats:
    stats = replace(stats, size_bytes=None)  # depends on the encoder
    is_key = stats.column_id == 7
    if type_ in ("interval", "timetz") and not is_key:  # DuckDB counts none of them
        stats = replace(stats, value_count=None, null_count=None)
    if type_ in ("int128", "uint128") and not is_key:  # DuckDB stores doubles, and gives no bounds
        stats = replace(stats, min_value=None, max_value=None)
    return stats


# ---------------------------------------------------------------------------------------------- partitions

DATED = ("date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz")


@pytest.mark.parametrize("type_", WRITTEN_BY_DUCKDB)
def test_partition_values_and_directories_are_duckdbs(hand_lake: HandLake, type_: str) -> None:
    calendar = ["year(c)", "month(c)", "day(c)", "hour(c)"] if type_ in DATED else []
    calendar = ["hour(c)"] if type_ in ("time", "timetz") else calendar
    expressions = [*calendar, "bucket(1000003, c)"] + (["c"] if type_ != "blob" else [])  # it fails for bytes
    table, layout = hand_lake.create_table({"c": type_})
    hand_lake.oracle.execute(f"ALTER TABLE {table} SET PARTITIONED BY ({', '.join(expressions)})")
    name = duckdb_type(column_of(type_))
    rows = ", ".join(f"(CAST({sql_text(text)} AS {name}))" for text in tame_texts_of(type_))

    hand_lake.oracle.execute(f"INSERT INTO {table} VALUES {rows}")

    values = from_text(pa.array(tame_texts_of(type_), pa.string()), column_of(type_))
    transforms = [parse_partition_expression(expression)[1] for expression in expressions]
    ours = [partition_values(values, layout.columns[0], transform).to_pylist() for transform in transforms]
    keys = hive_keys([PartitionKey(layout.columns[0].column_id, t) for t in transforms], layout.columns)
    assert {(*row, hive_directory(keys, row)) for row in zip(*ours, strict=True)} == theirs_by_file(hand_lake, table)


def theirs_by_file(lake: HandLake, table: str) -> set[tuple[str | None, ...]]:
    found = set()
    for file in lake.data_files(table):
        values = lake.oracle.query(
            f"SELECT partition_value FROM {CATALOG}.ducklake_file_partition_value"
            f" WHERE data_file_id = {file.data_file_id} ORDER BY partition_key_index"
        )
        relative = file.path.removeprefix(f"{lake.data_path}main/{table}/")
        found.add((*(value for (value,) in values), relative.rpartition("/")[0] + "/"))
    return found
