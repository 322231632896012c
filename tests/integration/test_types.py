"""Every type of the format: inlined and in Parquet, flat and nested, read back equal by us and by DuckDB."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import DuckLakeError, SchemaMismatch, UnsupportedType
from ducklake_core.model import Column
from ducklake_core.plan.conform import conform_column
from ducklake_core.spec.text import from_text, to_text
from ducklake_core.spec.types import SCALARS, arrow_type, build_column, parse_type
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.pairs import attach, quote
from tests.fixtures.values import SAMPLES, raw_array, sample_array

# The others are in the tests below: geometry is kept as bytes, and of variant and unknown no value can be written.
TYPES = tuple(SAMPLES)


def test_every_type_of_the_format_is_tried_here() -> None:
    tried = {"decimal" if type_.startswith("decimal") else type_ for type_ in TYPES}

    assert tried == {*SCALARS, "decimal"} - {"geometry", "variant", "unknown"}


def test_types_survive_inlined(catalog: Catalog, shared_oracle: Oracle) -> None:
    assert round_trips(catalog, shared_oracle, 1000) == {}


def test_types_survive_in_files(catalog: Catalog, shared_oracle: Oracle) -> None:
    assert round_trips(catalog, shared_oracle, 0) == {}


def round_trips(catalog: Catalog, oracle: Oracle, row_limit: int) -> dict[str, object]:
    """Write one table per type and return the columns that did not come back as they were, with the reader's name."""
    failures: dict[str, object] = {}
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.set_option("data_inlining_row_limit", row_limit)
        written = {type_: write_table(lake, f"t {type_}", type_) for type_ in TYPES}
        attach(oracle, catalog, "lake")
        for type_, data in written.items():
            table = lake.table(quote(f"t {type_}"))
            # DuckDB cannot read inlined lists of JSON values: such rows always go to a file.
            assert (len(table.files()) == 0) == (row_limit > 0 and type_ != "json" and is_inlinable(catalog, type_))
            read = table.read()
            for column in table.version.columns:
                expected = texts(data.column(column.name), column)
                found = {"ours": texts(read.column(column.name), column), "DuckDB": by_oracle(oracle, type_, column)}
                failures |= {f"{type_} {column.name} {who}": (t, expected) for who, t in found.items() if t != expected}
    return failures


def is_inlinable(catalog: Catalog, type_: str) -> bool:
    return catalog.name == "sqlite" or type_ != "time_ns"  # PostgreSQL has no such type


def write_table(lake: Lake, name: str, type_: str) -> pa.Table:
    """Write the type's sample values: as they are, and inside a list, a struct and a map."""
    values = sample_array(type_)
    rows = len(values)
    schema = {"id": "int64", "c": type_, "l": f"{type_}[]", "s": f"struct(f {type_})", "m": f"map(varchar, {type_})"}
    columns = {name: build_column(name, parse_type(text), 1) for name, text in schema.items()}
    offsets = pa.array(range(rows + 1), pa.int32())
    data = pa.table(
        {
            "id": pa.array(range(rows)),
            "c": values,
            "l": pa.ListArray.from_arrays(offsets, values, type=arrow_type(columns["l"])),
            "s": pa.StructArray.from_arrays([values], fields=list(arrow_type(columns["s"]))),
            "m": pa.MapArray.from_arrays(offsets, pa.array(["k"] * rows), values, type=arrow_type(columns["m"])),
        }
    )
    lake.create_table(quote(name), schema)
    lake.append(quote(name), data)
    return data


def texts(values: pa.ChunkedArray, column: Column) -> list[str | None]:
    """Return what the values say; each text of a moment or a time is of that value only."""
    found: list[str | None] = to_text(values, column).to_pylist()
    return found


def by_oracle(oracle: Oracle, type_: str, column: Column) -> object:
    """Return the texts of DuckDB. Ours of nested values have no blanks, so its texts are parsed and written again."""
    name, source = quote(column.name), f"lake.main.{quote(f't {type_}')} ORDER BY id"
    if column.is_nested and type_ in ("json", "blob"):  # in DuckDB's text they cannot be told from what is around
        values = oracle.arrow(f"SELECT {name} FROM {source}").column(0)
        return to_text(conform_column(values, column, type_), column).to_pylist()
    found = oracle.arrow(f"SELECT CAST({name} AS VARCHAR) FROM {source}").column(0)
    return to_text(from_text(found, column), column).to_pylist() if column.is_nested else found.to_pylist()


def test_geometry_is_kept_as_well_known_binary(catalog: Catalog, shared_oracle: Oracle) -> None:
    point = bytes.fromhex("0101000000000000000000F03F0000000000000040")  # POINT (1 2)
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"g": "geometry"})
        lake.append("t", {"g": pa.array([point, None], pa.binary())})
        read = lake.table("t").read().column("g").to_pylist()
        files = lake.table("t").files()
    attach(shared_oracle, catalog, "lake")

    theirs = shared_oracle.query("SELECT CAST(g AS VARCHAR) FROM lake.t")

    assert read == [point, None]
    assert len(files) == 1  # never inlined
    assert theirs == [("POINT (1 2)",), (None,)]


NO_VALUE: dict[str, tuple[str, Callable[[], pa.Array], type[DuckLakeError], str]] = {
    "variant": ("variant", lambda: pa.array(["x"]), UnsupportedType, "'variant'"),
    "unknown": ("unknown", lambda: pa.array(["x"]), UnsupportedType, "'unknown'"),
    "geometry as text": ("geometry", lambda: pa.array(["POINT (1 2)"]), SchemaMismatch, "is geometry"),
    "interval of nanoseconds": (
        "interval",
        lambda: pa.array([pa.MonthDayNano((0, 0, 1))], pa.month_day_nano_interval()),
        UnsupportedType,
        "microsecond",
    ),
    "time with offset that is none": ("timetz", lambda: pa.array(["noon"]), SchemaMismatch, "no timetz"),
    "int128 too large": (
        "int128",
        lambda: pa.array([Decimal(2**127)], pa.decimal256(39, 0)),
        SchemaMismatch,
        "no int128",
    ),
    "uint128 below zero": (
        "uint128",
        lambda: pa.array([Decimal(-1)], pa.decimal256(39, 0)),
        SchemaMismatch,
        "no uint128",
    ),
    "uuid that is none": ("uuid", lambda: pa.array(["not a uuid"]), SchemaMismatch, "not a uuid"),
    "decimal too wide": (
        "decimal(4,1)",
        lambda: pa.array([Decimal("12345.6")], pa.decimal128(6, 1)),
        SchemaMismatch,
        "does not fit",
    ),
    "timestamp with zone for one without": (
        "timestamp",
        lambda: pa.array([0], pa.timestamp("us", "UTC")),
        SchemaMismatch,
        "timestamp",
    ),
}


@pytest.mark.parametrize("limit", [0, 10], ids=["file", "inlined"])
@pytest.mark.parametrize(("type_", "values", "error", "message"), NO_VALUE.values(), ids=NO_VALUE)
def test_values_without_a_home_are_refused_before_anything_is_written(
    catalog: Catalog, type_: str, values: Callable[[], pa.Array], error: type[DuckLakeError], message: str, limit: int
) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.set_option("data_inlining_row_limit", limit)
        lake.create_table("t", {"i": "int64", "c": type_})
        before = catalog.dump()

        with pytest.raises(error, match=message):
            lake.append("t", {"i": [1], "c": values()})

        assert catalog.dump() == before
        assert not [p for p in Path(catalog.data_path).rglob("*") if p.is_file()]


@pytest.mark.parametrize(
    "type_",
    [pa.duration("us"), pa.decimal256(50, 2), pa.struct([]), pa.dense_union([pa.field("a", pa.int8())]), pa.null()],
    ids=str,
)
def test_arrow_types_without_a_home_are_refused_by_name(catalog: Catalog, type_: pa.DataType) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        before = catalog.dump()

        with pytest.raises(UnsupportedType, match="'odd"):
            lake.create_table("t", pa.schema([("odd", type_)]))

        assert catalog.dump() == before


def test_a_lake_with_values_we_cannot_read_says_so_for_those_columns_only(
    catalog: Catalog, shared_oracle: Oracle
) -> None:
    attach(shared_oracle, catalog, "lake")
    shared_oracle.execute("CREATE TABLE lake.t (i INTEGER, v VARIANT); INSERT INTO lake.t VALUES (1, 'x')")

    with Lake.open(catalog.url) as lake:
        assert lake.table("t").read(columns=["i"]).to_pylist() == [{"i": 1}]
        assert lake.table("t").count() == 1
        with pytest.raises(UnsupportedType, match=r"'v'.*variant"):
            lake.table("t").read()


def test_raw_arrays_are_what_the_table_takes() -> None:
    assert raw_array([1, None], "timestamptz").type == SCALARS["timestamptz"]
