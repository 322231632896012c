"""What a written data file is, how rows are split over files, and which facts are reported of them."""

import itertools
import pickle
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core.errors import SchemaMismatch, UnsupportedType
from ducklake_core.files.parquet_types import find_unwritable
from ducklake_core.files.parquet_writer import FileLayout, write_data_files, write_record_batches
from ducklake_core.files.storage import Storage
from ducklake_core.model import ColumnId, NewDataFile, Partitioning, PartitionKey, SortKey, SortOrder
from ducklake_core.spec.types import arrow_type, build_columns
from ducklake_core.spec.write_options import WriteOptions
from tests.fixtures.values import column_of, raw_array

ROWS = 1000


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return f"{tmp_path}/t/"


def layout(directory: str, columns: Mapping[str, str], **how: object) -> FileLayout:
    return FileLayout(directory, build_columns(columns), **how)  # type: ignore[arg-type] # fields by name


def write(how: FileLayout, table: pa.Table) -> tuple[NewDataFile, ...]:
    return write_data_files(Storage.of(how.directory), how, table)


def write_one(directory: str, type_: str, array: pa.Array) -> NewDataFile:
    (file,) = write(FileLayout(directory, (column_of(type_),)), pa.table({"c": array}))
    return file


def rows_of(directory: str, file: NewDataFile) -> list[object]:
    return list(pq.ParquetFile(directory + file.path).read().column(0).to_pylist())


# ----------------------------------------------------------------------------------------------- the file


def test_every_node_has_its_field_id_and_only_map_keys_are_required(directory: str) -> None:
    types = {"i": "int32", "s": "struct(x int32, l varchar[])", "m": "map(varchar, struct(y int8))"}
    how = layout(directory, types)
    table = pa.table({column.name: pa.nulls(1, arrow_type(column)) for column in how.columns})

    (file,) = write_data_files(Storage.of(directory), how, table, row_ids=pa.array([7]), snapshot_ids=pa.array([8]))

    text = str(pq.ParquetFile(directory + file.path).schema)
    assert [line.strip() for line in text.splitlines()[1:] if "field_id=-1" not in line and "field_id" in line] == [
        "optional int32 field_id=1 i;",
        "optional group field_id=2 s {",
        "optional int32 field_id=3 x;",
        "optional group field_id=4 l (List) {",
        "optional binary field_id=5 element (String);",
        "optional group field_id=6 m (Map) {",
        "required binary field_id=7 key (String);",
        "optional group field_id=8 value {",
        "optional int32 field_id=9 y (Int(bitWidth=8, isSigned=true));",
        "optional int64 field_id=2147483540 _ducklake_internal_row_id;",
        "optional int64 field_id=2147483539 _ducklake_internal_snapshot_id;",
    ]
    assert file.has_row_ids


@pytest.mark.parametrize(
    ("type_", "physical", "logical"),
    [
        ("boolean", "BOOLEAN", "None"),
        ("int8", "INT32", "Int(bitWidth=8, isSigned=true)"),
        ("uint64", "INT64", "Int(bitWidth=64, isSigned=false)"),
        ("int128", "BYTE_ARRAY", "String"),
        ("decimal(9,2)", "INT32", "Decimal(precision=9, scale=2)"),
        ("decimal(18,2)", "INT64", "Decimal(precision=18, scale=2)"),
        ("decimal(38,2)", "FIXED_LEN_BYTE_ARRAY", "Decimal(precision=38, scale=2)"),
        ("time", "INT64", "Time(isAdjustedToUTC=false, timeUnit=microseconds)"),
        ("time_ns", "BYTE_ARRAY", "String"),
        ("timetz", "BYTE_ARRAY", "String"),
        ("date", "INT32", "Date"),
        ("timestamp", "INT64", "isAdjustedToUTC=false, timeUnit=microseconds"),
        ("timestamp_s", "INT64", "isAdjustedToUTC=false, timeUnit=microseconds"),
        ("timestamp_ms", "INT64", "isAdjustedToUTC=false, timeUnit=milliseconds"),
        ("timestamp_ns", "INT64", "isAdjustedToUTC=false, timeUnit=nanoseconds"),
        ("timestamptz", "INT64", "isAdjustedToUTC=true, timeUnit=microseconds"),
        ("interval", "BYTE_ARRAY", "String"),
        ("json", "BYTE_ARRAY", "JSON"),
        ("blob", "BYTE_ARRAY", "None"),
        ("uuid", "FIXED_LEN_BYTE_ARRAY", "UUID"),
        ("geometry", "BYTE_ARRAY", "Geometry(crs=)"),
    ],
)
def test_physical_type(directory: str, type_: str, physical: str, logical: str) -> None:
    file = write_one(directory, type_, raw_array([None], type_))

    column = pq.ParquetFile(directory + file.path).schema.column(0)
    assert column.physical_type == physical
    assert logical in str(column.logical_type)


def test_sizes_are_those_of_the_file(directory: str) -> None:
    file = write_one(directory, "int32", pa.array(range(ROWS), pa.int32()))

    content = Path(directory + file.path).read_bytes()
    footer = pq.ParquetFile(directory + file.path).metadata
    assert file.file_size_bytes == len(content)
    assert file.footer_size == int.from_bytes(content[-8:-4], "little") == footer.serialized_size
    assert file.column_stats[0].size_bytes == footer.row_group(0).column(0).total_compressed_size
    assert file.record_count == ROWS


def test_no_rows_no_file(directory: str) -> None:
    assert write(layout(directory, {"c": "int32"}), pa.table({"c": pa.array([], pa.int32())})) == ()
    assert not Path(directory).exists()


def test_what_travels_between_processes_pickles(directory: str) -> None:
    how = layout(directory, {"c": "int32"}, partitioning=Partitioning(1, (PartitionKey(ColumnId(1), "identity"),)))
    files = write(how, pa.table({"c": pa.array([1, 2], pa.int32())}))

    for value in (how, files):
        assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301 # our own bytes


# ------------------------------------------------------------------------------------------ what is refused


def test_variant_is_refused_before_anything_is_written(directory: str) -> None:
    columns = build_columns({"i": "int32", "s": "struct(v variant)"})

    assert "'json'" in (find_unwritable(columns) or "")
    with pytest.raises(UnsupportedType, match="'s' has type 'variant'"):
        write(FileLayout(directory, columns), pa.table({"i": [1], "s": [None]}))
    assert not Path(directory).exists()


@pytest.mark.parametrize(
    ("type_", "array", "reason"),
    [
        ("interval", pa.array([(1, 2, 1001)], pa.month_day_nano_interval()), "finer than a microsecond"),
        ("timetz", pa.array(["noon"]), "no time with offset"),
        ("timestamp_s", pa.array([2**62]).view(pa.timestamp("s")), "beyond microseconds"),
    ],
)
def test_value_without_a_form_is_refused_before_anything_is_written(
    directory: str, type_: str, array: pa.Array, reason: str
) -> None:
    with pytest.raises(UnsupportedType, match=reason):
        write_one(directory, type_, array)
    assert not Path(directory).exists()


def test_columns_that_do_not_fit_are_refused(directory: str) -> None:
    with pytest.raises(SchemaMismatch, match="'c' of type 'int32'"):
        write_one(directory, "int32", pa.array(["x"]))
    with pytest.raises(SchemaMismatch, match="column 'c' once"):
        write(layout(directory, {"c": "int32"}), pa.table({"d": [1]}))


def test_failure_leaves_no_file(directory: str) -> None:
    names = itertools.chain(["a.parquet", "b.parquet"])  # a third name does not exist
    how = layout(directory, {"c": "int32"}, partitioning=Partitioning(1, (PartitionKey(ColumnId(1), "identity"),)))
    table = pa.table({"c": pa.array([1, 2, 3], pa.int32())})

    with pytest.raises((StopIteration, RuntimeError)):
        write_data_files(Storage.of(directory), how, table, new_name=lambda: next(names))
    with pytest.raises((StopIteration, RuntimeError)):
        write_record_batches(Storage.of(directory), how, failing_batches(table), buffer_bytes=1)

    assert [path for path in Path(directory).rglob("*") if path.is_file()] == []


def failing_batches(table: pa.Table) -> "itertools.chain[pa.RecordBatch]":
    def fail() -> pa.RecordBatch:
        raise RuntimeError

    return itertools.chain(table.to_batches(), (fail() for _ in range(1)))


# ------------------------------------------------------------------------------------ which rows, which file


def test_files_roll_at_the_target_size(directory: str) -> None:
    options = WriteOptions(target_file_bytes=20_000, compression="none")
    values = pa.array([f"{i:0100}" for i in range(ROWS)])

    files = write(layout(directory, {"c": "varchar"}, options=options), pa.table({"c": values}))

    assert len(files) > 3
    assert all(file.file_size_bytes < 60_000 for file in files)
    assert [value for file in files for value in rows_of(directory, file)] == values.to_pylist()
    assert [file.column_stats[0].max_value for file in files] == [rows_of(directory, file)[-1] for file in files]


def test_row_groups_have_the_size_of_the_option(directory: str) -> None:
    table = pa.table({"c": pa.array(range(ROWS), pa.int32())})

    (by_rows,) = write(layout(directory, {"c": "int32"}, options=WriteOptions(row_group_rows=300)), table)
    (by_bytes,) = write(layout(directory, {"c": "int32"}, options=WriteOptions(row_group_bytes=1000)), table)

    groups = pq.ParquetFile(directory + by_rows.path).metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [300, 300, 300, 100]
    assert pq.ParquetFile(directory + by_bytes.path).metadata.num_row_groups == 4


def test_each_partition_gets_its_own_file_in_its_directory(directory: str) -> None:
    keys = (PartitionKey(ColumnId(2), "identity"), PartitionKey(ColumnId(1), "bucket(2)"))
    table = pa.table({"i": pa.array([1, 2, 3, 4, 1], pa.int32()), "s": ["a", None, "a", "b/c", "a"]})
    how = layout(directory, {"i": "int32", "s": "varchar"}, partitioning=Partitioning(5, keys))

    files = write(how, table)

    found = {file.partition_values: (Path(file.path).parent.as_posix(), rows_of(directory, file)) for file in files}
    assert found == {
        ("a", "0"): ("s=a/bucket=0", [1, 1]),
        ("a", "1"): ("s=a/bucket=1", [3]),
        (None, "0"): ("s=__HIVE_DEFAULT_PARTITION__/bucket=0", [2]),
        ("b/c", "0"): ("s=b%2Fc/bucket=0", [4]),
    }


def test_directories_can_be_switched_off(directory: str) -> None:
    partitioning = Partitioning(5, (PartitionKey(ColumnId(1), "identity"),))
    options = WriteOptions.from_options({"hive_file_pattern": "false"})

    files = write(
        layout(directory, {"c": "int32"}, partitioning=partitioning, options=options),
        pa.table({"c": pa.array([1, 2], pa.int32())}),
    )

    assert {Path(file.path).parent.as_posix() for file in files} == {"."}
    assert [file.partition_values for file in files] == [("1",), ("2",)]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([SortKey("i")], [1, 2, 3, None]),
        ([SortKey("i", descending=True, nulls_first=True)], [None, 3, 2, 1]),
        ([SortKey('"S"'), SortKey("i", descending=True)], [2, 1, None, 3]),
        ([SortKey('"S"'), SortKey("lower(S)"), SortKey("i")], [2, 1, None, 3]),
        ([SortKey("i + 1")], [2, 3, None, 1]),
        ([SortKey("no_such_column")], [2, 3, None, 1]),
    ],
)
def test_rows_are_sorted_by_the_leading_plain_columns(
    directory: str, keys: list[SortKey], expected: list[int | None]
) -> None:
    table = pa.table({"i": pa.array([2, 3, None, 1], pa.int32()), "S": ["a", "c", "b", "a"]})
    how = layout(directory, {"i": "int32", "S": "varchar"}, sort_order=SortOrder(1, tuple(keys)))

    (file,) = write(how, table)

    assert rows_of(directory, file) == expected


def test_sorting_on_insert_can_be_switched_off(directory: str) -> None:
    options = WriteOptions.from_options({"sort_on_insert": "false"})
    how = layout(directory, {"i": "int32"}, sort_order=SortOrder(1, (SortKey("i"),)), options=options)

    (file,) = write(how, pa.table({"i": pa.array([2, 1], pa.int32())}))

    assert rows_of(directory, file) == [2, 1]


def test_row_ids_follow_their_rows(directory: str) -> None:
    partitioning = Partitioning(5, (PartitionKey(ColumnId(1), "bucket(2)"),))
    how = layout(directory, {"i": "int32"}, sort_order=SortOrder(1, (SortKey("i"),)), partitioning=partitioning)
    table = pa.table({"i": pa.array([4, 3, 2, 1], pa.int32())})

    files = write_data_files(Storage.of(directory), how, table, row_ids=pa.array([40, 30, 20, 10]))

    read = pa.concat_tables(pq.ParquetFile(directory + file.path).read() for file in files).to_pydict()
    assert [10 * i for i in read["i"]] == read["_ducklake_internal_row_id"]


def test_stream_is_written_piece_by_piece(directory: str) -> None:
    batches = [pa.record_batch({"c": pa.array([i] * 100, pa.int32())}) for i in range(6)]

    files = write_record_batches(
        Storage.of(directory), layout(directory, {"c": "int32"}), iter(batches), buffer_bytes=2 * batches[0].nbytes
    )

    assert [file.record_count for file in files] == [200, 200, 200]
    assert write_record_batches(Storage.of(directory), layout(directory, {"c": "int32"}), []) == ()
