"""What a catalog database cannot hold goes to Parquet: tables of very many columns, long rows, large values."""

import logging

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ducklake_core import Lake
from ducklake_core.row_writes import INLINE_BYTES
from tests.fixtures.catalogs import Catalog
from tests.fixtures.feeds import feed_of
from tests.fixtures.oracle import Oracle

SHORT, LONG = "ab", "some text of thirty characters"
# A type, a value, and whether rows of 1,000 such columns are inlined.
WIDE = [
    pytest.param("int64", 7, {"sqlite": True, "postgres": False}, id="numbers"),
    pytest.param("varchar", SHORT, {"sqlite": True, "postgres": True}, id="short texts"),
    pytest.param("varchar", LONG, {"sqlite": True, "postgres": False}, id="texts"),
]


def wide_rows(count: int, columns: int, value: object) -> pa.Table:
    return pa.table({"id": pa.array(range(count))} | {f"c{i}": [value] * count for i in range(columns - 1)})


@pytest.mark.parametrize(("type_", "value", "inlined"), WIDE)
def test_a_table_of_1000_columns(
    catalog: Catalog, oracle: Oracle, type_: str, value: object, inlined: dict[str, bool]
) -> None:
    rows = wide_rows(40, 1000, value)
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.set_option("data_inlining_row_limit", 50)
        lake.create_table("t", {"id": "int64", **dict.fromkeys(rows.column_names[1:], type_)})
        lake.append("t", rows.slice(0, 39))
        lake.append("t", rows.slice(39))

        assert lake.inlined_state("t").rows == (40 if inlined[catalog.name] else 0)
        assert feed_of(lake, lake.table("t").version, 1, 3).total() == 40
        lake.delete("t", "id = 3")
        lake.flush_inlined("t")
        assert lake.inlined_state("t").rows == 0
        assert lake.table("t").read().sort_by("id").equals(rows.filter(pc.field("id") != 3))

    oracle.attach(catalog.attach)
    assert oracle.arrow("FROM t ORDER BY id").to_pylist()[5:7] == rows.to_pylist()[6:8]
    assert oracle.query("SELECT count(*), sum(id) FROM t") == [(39, sum(range(40)) - 3)]


@pytest.mark.parametrize("columns", [1596, 1598, 1700, 1999])
def test_a_table_of_more_columns_than_a_table_of_the_catalog_can_have(
    catalog: Catalog, oracle: Oracle, columns: int
) -> None:
    rows = wide_rows(3, columns, value=True)
    most = {"sqlite": 1996, "postgres": 1597}[catalog.name]
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", rows.schema)
        lake.append("t", rows)

        assert lake.inlined_state("t").rows == (3 if columns <= most else 0)
        lake.delete("t", "id = 1")
        lake.flush_inlined("t")
        assert lake.table("t").read().equals(rows.take([0, 2]))

    oracle.attach(catalog.attach)
    assert oracle.query(f"SELECT id, c{columns - 2} FROM t ORDER BY id") == [(0, True), (2, True)]


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_rows_that_the_server_refuses_are_written_to_a_file_by_the_same_commit(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    short, long = wide_rows(3, 600, SHORT), wide_rows(3, 600, LONG)
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", short.schema)
        lake.create_table("u", {"i": "int64"})
        lake.append("t", short)
        with caplog.at_level(logging.WARNING), lake.transaction() as tx:
            tx.append("t", long)
            tx.append("u", {"i": [1]})
        lake.append("t", short)

        assert tx.result is not None
        assert tx.result.snapshot is not None
        assert tx.result.snapshot.snapshot_id == 4
        assert [added.files for added in tx.added().values()] == [1, 1]
        assert lake.inlined_state("t").rows == 6
        assert lake.table("t").read().num_rows == 9
        assert any("rows_not_inlined rows=4" in message for message in caplog.messages)


@pytest.mark.parametrize("count", [1, 50, 200])
def test_few_rows_of_many_bytes_are_written_to_a_file(catalog: Catalog, oracle: Oracle, count: int) -> None:
    large = "x" * (INLINE_BYTES // count + 1)
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.set_option("data_inlining_row_limit", 1000)
        lake.create_table("t", {"i": "int64", "s": "varchar"})
        lake.append("t", {"i": range(count), "s": [large[1000:]] * count})
        assert lake.inlined_state("t").rows == count
        lake.append("t", {"i": range(count), "s": [large] * count})

        assert lake.inlined_state("t").rows == count
        found = sorted(map(len, lake.table("t").read().column("s").to_pylist()))
        assert found == [len(large) - 1000] * count + [len(large)] * count

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), max(length(s)) FROM t") == [(2 * count, len(large))]


def test_rows_of_one_transaction_are_measured_together(catalog: Catalog) -> None:
    third = {"s": ["x" * (INLINE_BYTES // 3)]}
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"s": "varchar"})
        with lake.transaction() as tx:
            for _ in range(4):
                tx.append("t", third)

        assert lake.inlined_state("t").rows == 2
        assert lake.table("t").read().num_rows == 4


def test_rows_that_an_update_makes_large_are_written_to_a_file(catalog: Catalog) -> None:
    large = "x" * INLINE_BYTES
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64", "s": "varchar"})
        lake.append("t", {"i": [1, 2], "s": ["a", "b"]})
        with lake.transaction() as tx:
            tx.append("t", {"i": [3, 4], "s": ["c", "d"]})
            assert tx.update("t", {"s": large}, "i IN (1, 3)") == 2

        assert lake.inlined_state("t").rows - lake.inlined_state("t").ended_rows == 1
        found = lake.table("t").read().sort_by("i").column("s").to_pylist()
        assert [text[-1:] * len(text) == text and len(text) for text in found] == [len(large), 1, len(large), 1]
