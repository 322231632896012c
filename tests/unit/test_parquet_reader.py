"""A data file read as a table has changed since: by id, by name, by position, and with other writers' types."""

import datetime as dt
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.errors import UnreadableFile, UnsupportedType
from ducklake_core.files.field_match import Found, assemble, match_fields
from ducklake_core.files.parquet_reader import ReadRequest, read_data_file
from ducklake_core.files.parquet_writer import FileLayout, write_data_files
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile, DataFileId, NameMapping, NameMappingEntry, SnapshotId
from ducklake_core.spec.text import to_text
from ducklake_core.spec.types import FIELD_ID, arrow_type, build_columns
from tests.fixtures.values import arrays, column_of, columns

STORAGE = Storage.of("/")


def data_file(path: Path | str, **facts: object) -> DataFile:
    plain = DataFile(DataFileId(3), str(path), SnapshotId(2), 0, 0, row_id_start=100)
    return replace(plain, **facts)  # type: ignore[arg-type] # fields by name


def written(directory: Path, types: Mapping[str, str], table: pa.Table, **how: object) -> DataFile:
    layout = FileLayout(f"{directory}/", build_columns(types))
    ids = {name: values for name, values in how.items() if name in ("row_ids", "snapshot_ids")}
    (file,) = write_data_files(STORAGE, layout, table, **ids)  # type: ignore[arg-type] # arguments by name
    return data_file(directory / file.path, **{name: fact for name, fact in how.items() if name not in ids})


def foreign(directory: Path, array: pa.Array, *, field_id: int = 1, **how: object) -> DataFile:
    """Write a file as another writer would: one column, with whatever pyarrow makes of its type."""
    field = pa.field("x", array.type, metadata={FIELD_ID: str(field_id).encode()})
    pq.write_table(pa.Table.from_arrays([array], schema=pa.schema([field])), directory / "f.parquet", **how)
    return data_file(directory / "f.parquet")


def read(file: DataFile, wanted: Sequence[Column], **request: object) -> pa.Table:
    return read_data_file(STORAGE, file, ReadRequest(tuple(wanted), **request))  # type: ignore[arg-type] # by name


def column(id_: int, name: str, type_: str, **facts: object) -> Column:
    (built,) = build_columns({name: type_}, first_id=id_)
    return replace(built, **facts)  # type: ignore[arg-type] # fields by name


# ------------------------------------------------------------------------------------------- round trips


@given(st.data())
def test_any_column_comes_back(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    wanted = data.draw(columns())
    array = data.draw(arrays(wanted, 4))
    layout = FileLayout(f"{tmp_path_factory.mktemp('t')}/", (wanted,))

    (file,) = write_data_files(STORAGE, layout, pa.table({"c": array}))
    back = read(data_file(layout.directory + file.path), [wanted])

    assert back.column("c").type == array.type
    assert to_text(back.column("c"), wanted).to_pylist() == to_text(array, wanted).to_pylist()


@given(st.data())
def test_any_slice_is_written_as_itself(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    wanted = data.draw(columns())
    array = data.draw(arrays(wanted, 5))[1:4]
    layout = FileLayout(f"{tmp_path_factory.mktemp('t')}/", (wanted,))

    (file,) = write_data_files(STORAGE, layout, pa.table({"c": array}))
    back = read(data_file(layout.directory + file.path), [wanted])

    assert to_text(back.column("c"), wanted).to_pylist() == to_text(array, wanted).to_pylist()


def test_equal_types_are_passed_on_without_a_copy() -> None:
    wanted = build_columns({"a": "int64", "s": "struct(x varchar, l int32[])"})
    fields = [pa.field(c.name, t, metadata=field_id(c)) for c, t in zip(wanted, map(typed, wanted), strict=True)]
    array = pa.array([{"x": "a", "l": [1]}], fields[1].type)

    sources = match_fields(fields, wanted)

    assert all(isinstance(source, Found) and source.is_unchanged for source in sources)
    assert assemble(sources[1], array, 1) is array


def typed(node: Column) -> pa.DataType:
    """Return the Arrow type of a column as pyarrow reads it: with field ids."""
    if node.type == "struct":
        return pa.struct([pa.field(c.name, typed(c), metadata=field_id(c)) for c in node.children])
    if node.type == "list":
        return pa.list_(pa.field("element", typed(node.children[0]), metadata=field_id(node.children[0])))
    return {"int64": pa.int64(), "int32": pa.int32(), "varchar": pa.string()}[node.type]


def field_id(node: Column) -> dict[bytes, bytes]:
    return {FIELD_ID: str(node.column_id).encode()}


# ---------------------------------------------------------------------------------------- schema changes


def test_columns_are_found_by_id_whatever_their_name_and_order(tmp_path: Path) -> None:
    file = written(tmp_path, {"a": "int32", "b": "varchar"}, pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}))

    back = read(file, [column(2, "A", "varchar"), column(1, "b", "int64")])

    assert back.to_pydict() == {"A": ["x"], "b": [1]}
    assert back.schema.field("b").type == pa.int64()


@pytest.mark.parametrize(
    ("type_", "default", "value"),
    [
        ("int32", None, None),
        ("decimal(5,2)", "1.50", Decimal("1.50")),
        ("varchar", "it's", "it's"),
        ("int32[]", None, None),
        ("uuid", "00000000-0000-0000-0000-000000000000", bytes(16)),
    ],
)
def test_added_column_has_its_initial_default(tmp_path: Path, type_: str, default: str | None, value: object) -> None:
    file = written(tmp_path, {"a": "int32"}, pa.table({"a": pa.array([1, 2], pa.int32())}))

    back = read(file, [column(9, "new", type_, initial_default=default)]).column("new")

    assert [v.as_py() if type_ != "uuid" else v.value.as_py() for v in back] == [value, value]


def test_struct_fields_are_renamed_added_dropped_and_promoted_at_any_depth(tmp_path: Path) -> None:
    types = {"c": "struct(old int32, gone int32, l struct(x float32)[], m map(varchar, struct(y int8)))[]"}
    rows = pa.array(
        [[{"old": 1, "gone": 2, "l": [{"x": 1.5}, None], "m": [("k", {"y": 5})]}, None], None, []],
        pa.list_(typed_struct()),
    )
    file = written(tmp_path, types, pa.table({"c": rows.cast(arrow_type(column_of(types["c"])))}))
    (wanted,) = build_columns(types)
    element = wanted.children[0]
    old, _, lists, maps = element.children
    inner = lists.children[0]
    x = replace(inner.children[0], name="renamed_x", type="float64")
    added = column(50, "added", "varchar", initial_default="d")
    lists = replace(lists, children=(replace(inner, children=(added, x)),))
    changed = replace(element, children=(maps, lists, replace(old, name="new", type="int64")))

    back = read(file, [replace(wanted, children=(changed,))]).column("c").to_pylist()

    lists_back = [{"added": "d", "renamed_x": 1.5}, None]
    assert back == [[{"m": [("k", {"y": 5})], "l": lists_back, "new": 1}, None], None, []]


def test_struct_fields_that_swapped_their_names_keep_their_values(tmp_path: Path) -> None:
    types = {"s": "struct(x int32, y int32)"}
    rows = pa.array([{"x": 1, "y": 2}], arrow_type(column_of(types["s"])))
    file = written(tmp_path, types, pa.table({"s": rows}))
    (wanted,) = build_columns(types)
    x, y = wanted.children
    swapped = replace(wanted, children=(replace(y, name="x"), replace(x, name="y")))

    assert read(file, [swapped]).column("s").to_pylist() == [{"x": 2, "y": 1}]


def typed_struct() -> pa.DataType:
    y = pa.struct([("y", pa.int8())])
    inner = pa.list_(pa.struct([("x", pa.float32())]))
    return pa.struct([("old", pa.int32()), ("gone", pa.int32()), ("l", inner), ("m", pa.map_(pa.string(), y))])


def test_struct_fields_without_ids_are_an_error_and_not_nulls(tmp_path: Path) -> None:
    file = foreign(tmp_path, pa.array([{"a": 1}]))

    with pytest.raises(UnreadableFile, match="have no field ids"):
        read(file, [column(1, "s", "struct(a int64)")])


def test_file_without_ids_is_taken_by_position(tmp_path: Path) -> None:
    pq.write_table(pa.table({"b": [1], "a": [2]}), tmp_path / "f.parquet")
    a, b, c = build_columns({"a": "int64", "b": "int64", "c": "int64"})

    back = read(data_file(tmp_path / "f.parquet"), [b, c], table_columns=(a, b, c))

    assert back.to_pydict() == {"b": [2], "c": [None]}


def test_name_mapping_finds_columns_at_every_depth_and_in_the_path(tmp_path: Path) -> None:
    directory = tmp_path / "p=a%20b" / "q=__HIVE_DEFAULT_PARTITION__" / "r="
    directory.mkdir(parents=True)
    rows = pa.array([[{"X": 1, "y": 2}]])
    maps = pa.array([[("k", {"z": 3})]], pa.map_(pa.string(), pa.struct([("z", pa.int64())])))
    pq.write_table(pa.table({"L": rows, "m": maps, "unmapped": [9]}), directory / "f.parquet")
    types = {"l": "struct(y int64, x int64, w int64)[]", "m": "map(varchar, struct(z int64))", "u": "int64"}
    lists, mapped, unmapped, p, q, r = build_columns({**types, "p": "varchar", "q": "int32", "r": "int32"})
    y, x, _ = lists.children[0].children
    key, value = mapped.children

    def entry(source: str, node: Column, *children: NameMappingEntry, in_path: bool = False) -> NameMappingEntry:
        return NameMappingEntry(source, node.column_id, in_path, children)

    mapping = NameMapping(
        7,
        (
            entry("L", lists, entry("list", lists.children[0], entry("x", x), entry("y", y))),
            entry("m", mapped, entry("key", key), entry("value", value, entry("z", value.children[0]))),
            *(entry(node.name, node, in_path=True) for node in (p, q, r)),
        ),
    )

    back = read(data_file(directory / "f.parquet", mapping=mapping), [lists, mapped, unmapped, p, q, r])

    expected = {"l": [{"y": 2, "x": 1, "w": None}], "m": [("k", {"z": 3})], "u": None, "p": "a b", "q": None, "r": None}
    assert back.to_pylist() == [expected]


def test_name_mapping_with_a_hole_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"l": [[1]]}), tmp_path / "f.parquet")
    (lists,) = build_columns({"l": "int64[]"})
    mapping = NameMapping(7, (NameMappingEntry("l", lists.column_id),))

    with pytest.raises(UnreadableFile, match="name mapping says nothing"):
        read(data_file(tmp_path / "f.parquet", mapping=mapping), [lists])


# ------------------------------------------------------------------------------- what other writers write


@pytest.mark.parametrize(
    ("array", "type_", "value"),
    [
        (pa.array(["12"]), "int32", 12),
        (pa.array([12], pa.int8()), "int64", 12),
        (pa.array([12], pa.int64()), "int32", 12),
        (pa.array([12], pa.int32()), "float64", 12.0),
        (pa.array([np.float16(1.5)], pa.float16()), "float32", 1.5),
        (pa.array([b"abc"]), "varchar", "abc"),
        (pa.array(["abc"]), "blob", b"abc"),
        (pa.array(["abc"], pa.large_string()), "varchar", "abc"),
        (pa.array(["abc"], pa.large_string()), "json", "abc"),
        (pa.array(["abc"]).dictionary_encode(), "varchar", "abc"),
        (pa.array([[1]], pa.large_list(pa.field("item", pa.int64()))), "int64[]", [1]),
        (pa.array([[1, 2]], pa.list_(pa.int64(), 2)), "int64[]", [1, 2]),
        (pa.array([Decimal("1.5")], pa.decimal128(4, 1)), "decimal(18,2)", Decimal("1.50")),
        (pa.array([Decimal(7)], pa.decimal128(38, 0)), "int128", Decimal(7)),
        (pa.array([2.0**100]), "int128", Decimal(2**100)),
        (pa.array(["340282366920938463463374607431768211455"]), "uint128", Decimal(2**128 - 1)),
        (pa.array([1], pa.time32("s")), "time", dt.time(0, 0, 1)),
        (pa.array([1500], pa.time64("ns")), "time", dt.time(0, 0, 0, 1)),
        (pa.array([5_000_000], pa.time64("us")), "timetz", "00:00:05+00"),
        (pa.array([1], pa.timestamp("ms")), "timestamp", dt.datetime(1970, 1, 1, 0, 0, 0, 1000)),  # noqa: DTZ001 # naive
        (pa.array([1], pa.timestamp("s", "Europe/Berlin")), "timestamp", dt.datetime(1970, 1, 1, 0, 0, 1)),  # noqa: DTZ001 # naive
        (pa.array([1], pa.timestamp("us")), "timestamptz", dt.datetime(1970, 1, 1, 0, 0, 0, 1, dt.UTC)),
        (pa.array([1], pa.date32()), "timestamp", dt.datetime(1970, 1, 2)),  # noqa: DTZ001 # naive
        (pa.array([-1_500_000], pa.timestamp("us")), "timestamp_s", dt.datetime(1969, 12, 31, 23, 59, 58)),  # noqa: DTZ001 # naive
        (
            pa.array([struct.pack("<III", 14, 3, 1500)], pa.binary(12)),
            "interval",
            pa.MonthDayNano((14, 3, 1_500_000_000)),
        ),
        (pa.array(["1 day"]), "interval", pa.MonthDayNano((0, 1, 0))),
        (pa.array([b"\x01"]), "geometry", b"\x01"),
        (pa.array([True]), "int32", 1),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else None,
)
def test_other_physical_types_are_cast(tmp_path: Path, array: pa.Array, type_: str, value: object) -> None:
    file = foreign(tmp_path, pa.concat_arrays([array, pa.nulls(1, array.type)]))

    back = read(file, [column_of(type_)]).column("c")

    assert back.to_pylist() == [value, None]


@pytest.mark.parametrize("array", [pa.array([bytes(range(16))], pa.binary(16)), pa.array([bytes(range(16))])])
def test_bytes_are_a_uuid(tmp_path: Path, array: pa.Array) -> None:
    back = read(foreign(tmp_path, array), [column_of("uuid")]).column("c")

    assert back.type == pa.uuid()
    assert back.chunk(0).storage.to_pylist() == [bytes(range(16))]


@pytest.mark.parametrize("type_", ["timestamp", "timestamp_s", "timestamp_ms"])
def test_infinite_dates_stay_infinite_when_promoted(tmp_path: Path, type_: str) -> None:
    file = foreign(tmp_path, pa.array([2**31 - 1, 1 - 2**31], pa.int32()).view(pa.date32()))

    back = read(file, [column_of(type_)]).column("c")

    assert to_text(back, column_of(type_)).to_pylist() == ["infinity", "-infinity"]


@pytest.mark.parametrize(("type_", "year"), [("timestamp", 9999), ("timestamptz", 1), ("timestamp_ns", 2100)])
def test_int96_timestamps_keep_their_range(tmp_path: Path, type_: str, year: int) -> None:
    moment = dt.datetime(year, 6, 1, tzinfo=dt.UTC)
    file = foreign(tmp_path, pa.array([moment], pa.timestamp("us")), use_deprecated_int96_timestamps=True)

    back = read(file, [column_of(type_)]).column("c")

    assert back.cast(pa.int64()).to_pylist()[0] // {"timestamp_ns": 1000}.get(type_, 1) == micros(moment)


def micros(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array([300], pa.int32()), "int8"),
        (pa.array(["x"]), "int32"),
        (pa.array([b"\xff"]), "varchar"),
        (pa.array([2**62], pa.timestamp("ms")), "timestamp"),
        (pa.array([1]), "int64[]"),
        (pa.array([[1]]), "struct(a int8)"),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else None,
)
def test_value_that_does_not_fit_is_an_error_that_names_the_file(tmp_path: Path, array: pa.Array, type_: str) -> None:
    file = foreign(tmp_path, array)

    with pytest.raises(UnreadableFile, match=r"cannot read data file 3 '.*f\.parquet' at snapshot 9") as error:
        read(file, [column_of(type_)], snapshot=SnapshotId(9))
    assert (error.value.path, error.value.data_file_id, error.value.snapshot) == (file.path, 3, 9)


def test_variant_is_refused_only_when_it_is_wanted(tmp_path: Path) -> None:
    group = pa.array([{"metadata": b"", "value": b""}])
    table = pa.Table.from_arrays(
        [pa.array([1]), group], schema=pa.schema([named("i", 1, pa.int64()), named("v", 2, group.type)])
    )
    pq.write_table(table, tmp_path / "f.parquet")
    i, v = build_columns({"i": "int64", "v": "variant"})

    assert read(data_file(tmp_path / "f.parquet"), [i]).to_pydict() == {"i": [1]}
    with pytest.raises(UnsupportedType, match="'v' has type 'variant'"):
        read(data_file(tmp_path / "f.parquet"), [v])


def named(name: str, id_: int, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, metadata={FIELD_ID: str(id_).encode()})
