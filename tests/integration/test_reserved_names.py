"""Names of columns that data files use themselves are refused; names that only we use on the way are not."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput
from tests.fixtures.catalogs import Catalog, MakeCatalog
from tests.fixtures.feeds import check_law
from tests.fixtures.oracle import Oracle

INTERNAL = ["_ducklake_internal_row_id", "_ducklake_internal_snapshot_id", "_DuckLake_Internal_ROW_ID"]
ACTS: dict[str, Callable[[Lake, str], object]] = {
    "create": lambda lake, name: lake.create_table("u", {"k": "int64", name: "int64"}),
    "add": lambda lake, name: lake.add_column("t", name, "int64"),
    "rename": lambda lake, name: lake.rename_column("t", "v", name),
    "merge": lambda lake, name: lake.merge_schema("t", {"k": "int64", "v": "int64", name: "int64"}),
}


@pytest.mark.parametrize("name", INTERNAL)
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_column_cannot_have_the_name_of_an_internal_one(
    catalog: Catalog, act: Callable[[Lake, str], object], name: str
) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"k": "int64", "v": "int64"})
        before = catalog.dump()

        with pytest.raises(InvalidInput, match=f"'{name}' cannot be a column's name: .* internal column"):
            act(lake, name)

        assert catalog.dump() == before


def live_through(lake: Lake, rows: pa.Table) -> None:
    """Put rows into files and the catalog, delete and update some of both, and flush."""
    lake.create_table("t", rows.schema)
    lake.append("t", rows.slice(0, 3))
    lake.append("t", rows)
    lake.delete("t", "k = 5")
    lake.update("t", {"k": 100}, "k = 6")
    lake.update("t", {"k": 101}, "k > 6 AND k < 35")
    lake.flush_inlined("t")


@pytest.mark.parametrize("name", ["_ducklake_internal_row_id", "_DuckLake_Internal_Snapshot_ID", "row_id"])
def test_a_field_of_a_struct_may_have_any_name(catalog: Catalog, oracle: Oracle, name: str) -> None:
    rows = pa.table({"k": range(40), "s": [{name: 7 * i} for i in range(40)]})
    with Lake.create(catalog.url, catalog.data_path) as lake:
        live_through(lake, rows)

        found = [(row["k"], row["s"]) for row in lake.table("t").read().to_pylist()]
        check_law(lake)

    oracle.attach(catalog.attach)
    assert sorted(oracle.query("SELECT k, s FROM t"), key=repr) == sorted(found, key=repr)


@pytest.mark.parametrize("name", ["_ducklake_internal_position", "_ducklake_index", "row_id"])
def test_a_column_may_have_a_name_that_is_close(catalog: Catalog, oracle: Oracle, name: str) -> None:
    rows = pa.table({"k": range(40), name: [7 * i for i in range(40)]})
    with Lake.create(catalog.url, catalog.data_path) as lake:
        live_through(lake, rows)

        found = [tuple(row.values()) for row in lake.table("t").read().to_pylist()]
        check_law(lake)

    oracle.attach(catalog.attach)
    assert sorted(oracle.query("SELECT * FROM t")) == sorted(found)


@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", INTERNAL)
def test_a_table_that_duckdb_made_so_is_read_but_not_written_to(
    make_catalog: MakeCatalog, oracle: Oracle, name: str
) -> None:
    catalog = make_catalog()
    oracle.attach(catalog.attach, data_path=catalog.data_path, data_inlining_row_limit=0)  # else it refuses, too
    oracle.execute(f"CREATE TABLE t (k BIGINT, {name} BIGINT)")
    oracle.execute("INSERT INTO t SELECT i, i * 7 FROM range(40) r(i)")
    oracle.execute("DELETE FROM t WHERE k = 3")

    with Lake.open(catalog.url) as lake:
        assert sorted(lake.table("t").read().column(1).to_pylist()) == [7 * i for i in range(40) if i != 3]
        assert sum(events.total() for events in check_law(lake).values()) > 0
        with pytest.raises(InvalidInput, match=f"cannot write to 'main.t': its column '{name}' .* rename the column"):
            lake.append("t", {"k": [1], name: [2]})
        lake.delete("t", "k = 4")
        lake.rename_column("t", name, "other")
        lake.append("t", {"k": [1], "other": [2]})
        assert lake.table("t").read().num_rows == 39
