"""Bad input and broken lakes: a typed error that names the thing and the remedy, and nothing left behind."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import (
    CommitConflict,
    CorruptCatalog,
    DuckLakeError,
    InvalidInput,
    NotNullViolation,
    ObjectExists,
    ObjectNotFound,
    SchemaMismatch,
    UnreadableFile,
    UnsupportedType,
    UnwritableFile,
)
from tests.fixtures.catalogs import Catalog, Rows
from tests.fixtures.databases import run

Act: TypeAlias = Callable[[Lake], object]
State: TypeAlias = tuple[dict[str, Rows], dict[str, bytes]]

NUL = "a\0b"


def state_of(catalog: Catalog) -> State:
    """Return everything there is: each row of the catalog and each file."""
    files = {str(p): p.read_bytes() for p in Path(catalog.data_path).rglob("*") if p.is_file()}
    return catalog.dump(), files


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    """Give a lake with a table of inlined rows and one file."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("n", pa.int8())])
    with Lake.create(catalog.url, catalog.data_path) as made:
        made.create_table("t", schema)
        made.append("t", rows(3))
        made.append("t", rows(40))
        yield made


def rows(count: int, **changed: object) -> dict[str, object]:
    columns = {"id": list(range(count)), "name": ["x"] * count, "n": pa.array([1] * count, pa.int8())}
    return {**columns, **changed}


def many_and(bad: object) -> pa.Array:
    """Return a column for a file whose last value is bad."""
    return pa.array([1] * 49 + [bad])


BAD_DATA: dict[str, tuple[object, type[DuckLakeError], str]] = {
    "text for a number": (rows(1, id=["a"]), SchemaMismatch, r"main\.t\.id.*int64.*string.*cast"),
    "number for a text": (rows(1, name=[1]), SchemaMismatch, r"main\.t\.name.*varchar.*int64"),
    "too large": (rows(1, n=[128]), SchemaMismatch, r"main\.t\.n.*int8.*128"),
    "float for a number": (rows(1, id=[1.5]), SchemaMismatch, r"main\.t\.id"),
    "struct for a text": (rows(1, name=[{"a": 1}]), SchemaMismatch, r"main\.t\.name"),
    "too large, in a file": (rows(50, n=many_and(300)), SchemaMismatch, r"main\.t\.n.*300"),
    "a column missing": ({"id": [1], "name": ["a"]}, SchemaMismatch, r"lacks columns 'n'.*defaults"),
    "a column too many": (rows(1, nmae=["x"]), SchemaMismatch, r"no columns 'nmae'; did you mean 'name'"),
    "a column twice": (
        pa.table([[1], [2], ["a"], pa.array([1], pa.int8())], names=["id", "ID", "name", "n"]),
        SchemaMismatch,
        "'id' twice",
    ),
    "null where forbidden": (rows(1, id=pa.array([None], pa.int64())), NotNullViolation, r"'id' of 'main\.t'.*row 0"),
    "null where forbidden, in a file": (rows(50, id=many_and(None)), NotNullViolation, r"'id' of 'main\.t'.*row 49"),
    "no data": (17, InvalidInput, "cannot make Arrow data of int"),
    "an integer beyond int64": ([{"id": 2**63, "name": "a", "n": 1}], InvalidInput, "give an Arrow table with types"),
    "columns of two lengths": ({"id": [1, 2], "name": ["a"], "n": [1]}, InvalidInput, "cannot make Arrow data"),
}


@pytest.mark.parametrize(("data", "error", "message"), BAD_DATA.values(), ids=BAD_DATA)
def test_data_that_does_not_fit(
    lake: Lake, catalog: Catalog, data: object, error: type[DuckLakeError], message: str
) -> None:
    before = state_of(catalog)

    with pytest.raises(error, match=message):
        lake.append("t", data)

    assert state_of(catalog) == before


def test_a_transaction_leaves_nothing_of_what_came_before_the_error(lake: Lake, catalog: Catalog) -> None:
    before = state_of(catalog)

    with pytest.raises(SchemaMismatch), lake.transaction() as tx:  # noqa: PT012 # what came before is the point
        tx.create_schema("s")
        tx.create_table("s.u", {"i": "int64"})
        tx.append("s.u", {"i": list(range(100))})
        tx.append("t", rows(50))
        tx.delete("t", "id < 30")
        tx.append("t", rows(1, id=["bad"]))

    assert state_of(catalog) == before


BAD_ACTS: dict[str, tuple[Act, type[DuckLakeError], str]] = {
    "append to no table": (lambda lake: lake.append("tt", rows(1)), ObjectNotFound, r"'tt'.*did you mean 'main\.t'"),
    "read no table": (lambda lake: lake.table("s.t"), ObjectNotFound, r"no table 's\.t'"),
    "read no snapshot": (
        lambda lake: lake.table("t", at=99),
        ObjectNotFound,
        r"'99': that is still to come; .* newest \d+ of",
    ),
    "read at no time": (lambda lake: lake.table("t", at="noon"), InvalidInput, "'noon' is no snapshot"),  # type: ignore[arg-type] # the error is for those without mypy
    "read no column": (lambda lake: lake.table("t").read(columns=["nam"]), ObjectNotFound, "did you mean 'name'"),
    "table in no schema": (
        lambda lake: lake.create_table("s.t", {"i": "int64"}),
        ObjectNotFound,
        r"create_schema\('s'\)",
    ),
    "table twice": (lambda lake: lake.create_table("T", {"i": "int64"}), ObjectExists, r"'main\.T' exists"),
    "schema twice": (lambda lake: lake.create_schema("MAIN"), ObjectExists, "'MAIN' exists"),
    "table of no columns": (lambda lake: lake.create_table("u", {}), InvalidInput, "at least one column"),
    "one name twice": (lambda lake: lake.create_table("u", {"a": "int8", "A": "int8"}), InvalidInput, "two columns"),
    "no type": (lambda lake: lake.create_table("u", {"a": "enum"}), InvalidInput, "'enum' is not a type: use one of"),
    "plain decimal": (lambda lake: lake.create_table("u", {"a": "decimal"}), InvalidInput, "precision"),
    "arrow type without a home": (
        lambda lake: lake.create_table("u", pa.schema([("d", pa.duration("s"))])),
        UnsupportedType,
        "'d'.*duration.*cast",
    ),
    "NUL in a schema's name": (lambda lake: lake.create_schema(NUL), InvalidInput, "NUL"),
    "NUL in a table's name": (lambda lake: lake.create_table(f'"{NUL}"', {"i": "int64"}), InvalidInput, "NUL"),
    "NUL in a column's name": (lambda lake: lake.create_table("u", {NUL: "int64"}), InvalidInput, "NUL"),
    "NUL in a field's name": (
        lambda lake: lake.create_table("u", {"s": pa.struct([(NUL, pa.int64())])}),
        InvalidInput,
        "NUL",
    ),
    "NUL in a new name": (lambda lake: lake.rename_table("t", NUL), InvalidInput, "NUL"),
    "NUL in a comment": (lambda lake: lake.set_comment("t", NUL), InvalidInput, "NUL"),
    "NUL in a default": (lambda lake: lake.set_default("t", "name", NUL), InvalidInput, "NUL"),
    "empty name": (lambda lake: lake.create_schema(""), InvalidInput, "empty"),
    "three names": (lambda lake: lake.append("a.b.c", rows(1)), InvalidInput, r"'a\.b\.c' is not a table's name"),
    "open quote": (lambda lake: lake.append('"t', rows(1)), InvalidInput, "is not a name"),
    "no column": (lambda lake: lake.drop_column("t", "nam"), ObjectNotFound, "did you mean 'name'"),
    "narrower type": (lambda lake: lake.promote_column("t", "id", "int32"), InvalidInput, "int64 to int32"),
    "new column that forbids nulls": (
        lambda lake: lake.add_column("t", "x", "int64", nulls_allowed=False),
        InvalidInput,
        "default",
    ),
    "default of another type": (
        lambda lake: lake.set_default("t", "id", "a"),
        InvalidInput,
        "'a' is no value of column 'id'",
    ),
    "partition by no column": (lambda lake: lake.set_partitioning("t", ["day(x)"]), ObjectNotFound, "no column 'x'"),
    "partition by no transform": (lambda lake: lake.set_partitioning("t", ["week(id)"]), InvalidInput, r"week\(id\)"),
    "day of a number": (lambda lake: lake.set_partitioning("t", ["day(id)"]), InvalidInput, "'id'.*'int64'"),
    "forbid nulls in no column": (lambda lake: lake.set_not_null("t", "x"), ObjectNotFound, "no column 'x'"),
    "sort by no column": (lambda lake: lake.set_sort_order("t", ["x DESC"]), ObjectNotFound, "no column 'x'"),
    "no filter": (lambda lake: lake.delete("t", "id = = 3"), InvalidInput, "cannot parse the filter"),
    "filter of no column": (lambda lake: lake.delete("t", "nam = 'x'"), InvalidInput, "nam"),
    "update of no column": (lambda lake: lake.update("t", {"x": 1}), SchemaMismatch, "no column 'x'"),
    "update to a forbidden null": (lambda lake: lake.update("t", {"id": None}), NotNullViolation, "'id'"),
    "update to another type": (lambda lake: lake.update("t", {"id": "a"}, "id > 30"), SchemaMismatch, "id"),
    "no option": (lambda lake: lake.set_option("target_size", 1), InvalidInput, "did you mean 'target_file_size'"),
    "no value of an option": (lambda lake: lake.set_option("data_inlining_row_limit", -1), InvalidInput, "'-1'"),
    "option of no table": (lambda lake: lake.set_option("auto_compact", "true", table="x"), ObjectNotFound, "'x'"),
    "schema that has tables": (lambda lake: lake.drop_schema("main"), InvalidInput, "'t'.*cascade"),
}


@pytest.mark.parametrize(("act", "error", "message"), BAD_ACTS.values(), ids=BAD_ACTS)
def test_acts_that_cannot_be_done(
    lake: Lake, catalog: Catalog, act: Act, error: type[DuckLakeError], message: str
) -> None:
    before = state_of(catalog)

    with pytest.raises(error, match=message):
        act(lake)

    assert state_of(catalog) == before


def test_the_last_column_stays(lake: Lake) -> None:
    lake.drop_column("t", "n")
    lake.drop_column("t", "name")

    with pytest.raises(InvalidInput, match=r"'id' of 'main\.t' is the last one"):
        lake.drop_column("t", "id")


def test_nulls_that_are_there_cannot_be_forbidden(lake: Lake, catalog: Catalog) -> None:
    lake.append("t", rows(1, name=pa.nulls(1, pa.string())))
    before = state_of(catalog)

    with pytest.raises(InvalidInput, match=r"'name' of 'main\.t' has 1 null"):
        lake.set_not_null("t", "name")

    assert state_of(catalog) == before


@pytest.mark.parametrize("name", ['a"b', "a.b", "it's", "n" * 70, " ", "%s", "ü🦆"])
def test_odd_names_are_just_names(lake: Lake, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    lake.create_schema(name)
    lake.create_table(f"{quoted}.{quoted}", {name: "int64"})
    lake.append(f"{quoted}.{quoted}", {name: [1]})
    lake.append(f"{quoted}.{quoted}", {name: list(range(40))})
    lake.set_not_null(f"{quoted}.{quoted}", quoted)

    found = lake.table(f"{quoted}.{quoted}").read(filter=f"{quoted} = 1")

    assert found.to_pylist() == [{name: 1}, {name: 1}]


def test_nul_in_a_string_is_a_string(lake: Lake) -> None:
    lake.append("t", rows(1, name=[NUL]))

    assert lake.table("t").read(filter="id = 0").column("name").to_pylist().count(NUL) == 1


# ------------------------------------------------------------------------------------------ broken files


def into_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


BREAKAGES: dict[str, Callable[[Path], object]] = {
    "missing": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-20]),
    "no Parquet": lambda file: file.write_bytes(b"PAR1 but not really PAR1"),
    "damaged inside": lambda file: file.write_bytes(b"PAR1" + b"\xff" * 60 + file.read_bytes()[64:]),
    "a directory": into_directory,
}


@pytest.mark.parametrize("damage", BREAKAGES.values(), ids=BREAKAGES)
def test_a_data_file_that_cannot_be_read(lake: Lake, catalog: Catalog, damage: Callable[[Path], object]) -> None:
    (file,) = Path(catalog.data_path).rglob("*.parquet")
    damage(file)
    before = state_of(catalog)

    with pytest.raises(UnreadableFile, match=file.name):
        lake.table("t").read()
    with pytest.raises(UnreadableFile, match=file.name):
        lake.update("t", {"name": "y"}, "id > 30")

    assert state_of(catalog) == before


def test_a_file_with_other_rows_than_the_catalog_says(lake: Lake, catalog: Catalog) -> None:
    run(catalog, "UPDATE ducklake_data_file SET record_count = 41")

    with pytest.raises(UnreadableFile, match=r"ducklake-.*\.parquet"):
        lake.delete("t", "id = 3")


def test_a_delete_file_that_cannot_be_read(lake: Lake, catalog: Catalog) -> None:
    lake.delete("t", "id < 20")
    (deletes,) = Path(catalog.data_path).rglob("*-delete.parquet")
    deletes.write_bytes(b"nothing")

    with pytest.raises(UnreadableFile, match=deletes.name):
        lake.table("t").read()


def test_a_data_path_that_cannot_be_written(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with Lake.create(catalog.url, f"{tmp_path}/file/data") as lake:
        lake.create_table("t", {"i": "int64"})
        before = catalog.dump()

        with pytest.raises(UnwritableFile, match="file/data"):
            lake.append("t", {"i": list(range(50))})

        assert catalog.dump() == before
        assert lake.append("t", {"i": [1]}) is not None  # inlined rows need no file


# ---------------------------------------------------------------------------------------- broken catalogs


BROKEN_ROWS: dict[str, tuple[str, str]] = {
    "nulls_allowed is null": (
        "UPDATE ducklake_column SET nulls_allowed = NULL WHERE column_name = 'name'",
        r"table 'main\.t'.*'ducklake_column': column_id 2, name 'name'",
    ),
    "parent that is missing": (
        "UPDATE ducklake_column SET parent_column = 77 WHERE column_name = 'n'",
        r"table 'main\.t'.*'ducklake_column': column_id 3.*parent_column 77",
    ),
    "type that is none": (
        "UPDATE ducklake_column SET column_type = 'banana' WHERE column_name = 'n'",
        r"table 'main\.t'.*'ducklake_column': column_id 3.*banana",
    ),
    "no live column": ("UPDATE ducklake_column SET end_snapshot = 1", r"table 'main\.t' has no live column"),
    "data file without a path": ("UPDATE ducklake_data_file SET path = NULL", r"data file \d of 'main\.t' lacks"),
    "mapping that is missing": (
        "UPDATE ducklake_data_file SET mapping_id = 99",
        r"data file \d of 'main\.t' names mapping 99",
    ),
    "snapshot without counters": ("UPDATE ducklake_snapshot SET next_file_id = NULL", "'ducklake_snapshot'"),
}


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize(("statement", "message"), BROKEN_ROWS.values(), ids=BROKEN_ROWS)
def test_a_catalog_with_a_broken_row(catalog: Catalog, statement: str, message: str) -> None:
    run(catalog, statement)
    before = state_of(catalog)

    with pytest.raises(CorruptCatalog, match=message), Lake.open(catalog.url) as broken:
        broken.table("t").read()
    with pytest.raises(CorruptCatalog, match=message), Lake.open(catalog.url) as broken:
        broken.delete("t", "id = 3")

    assert state_of(catalog) == before


def test_two_live_delete_files_of_one_data_file(lake: Lake, catalog: Catalog) -> None:
    """Flushes of the extension leave such: both count, and the next delete makes one of them."""
    lake.delete("t", "id < 20")
    run(
        catalog,
        "INSERT INTO ducklake_delete_file SELECT 98, table_id, begin_snapshot, end_snapshot, data_file_id, path,"
        " path_is_relative, format, delete_count, file_size_bytes, footer_size, encryption_key, partial_max"
        " FROM ducklake_delete_file",
    )

    assert sorted(lake.table("t").read()["id"].to_pylist()) == list(range(20, 40))
    assert lake.table("t").count() == 20
    lake.delete("t", "id < 35")
    assert sorted(lake.table("t").read()["id"].to_pylist()) == list(range(35, 40))
    [(count,)] = catalog.query("SELECT delete_count FROM ducklake_delete_file WHERE end_snapshot IS NULL")
    assert count == 35


def test_an_inlined_text_that_is_no_value(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64", "day": "date", "l": "int32[]"})
        lake.append("t", {"i": [1], "day": pa.array([0], pa.date32()), "l": [[1]]})
        for column in ("day", "l"):
            run(catalog, f"UPDATE ducklake_inlined_data_1_1 SET {column} = 'banana'")

            with pytest.raises(CorruptCatalog, match=f"'{column}'.*banana"):
                lake.table("t").read()
            run(catalog, f"UPDATE ducklake_inlined_data_1_1 SET {column} = NULL")


def test_a_changes_text_that_nobody_knows(lake: Lake, catalog: Catalog) -> None:
    """It matters only to a commit that must know what others did meanwhile."""
    with pytest.raises((CorruptCatalog, CommitConflict), match="melted_table:1"), lake.transaction() as tx:  # noqa: PT012 # another writer commits in between
        tx.delete("t", "id = 3")
        with Lake.open(catalog.url) as other:
            other.append("t", rows(1))
        run(catalog, "UPDATE ducklake_snapshot_changes SET changes_made = 'melted_table:1' WHERE snapshot_id = 4")

    assert lake.table("t").count() == 44


def test_an_inlined_table_that_is_gone(lake: Lake, catalog: Catalog) -> None:
    run(catalog, "DROP TABLE ducklake_inlined_data_1_1")

    with pytest.raises(CorruptCatalog, match=r"'main\.t'.*ducklake_inlined_data_1_1"):
        lake.table("t").read()
