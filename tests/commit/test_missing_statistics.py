"""A table with rows but without its statistics row, as a careless writer leaves it: row ids and bounds stay right."""

import pytest

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.databases import run
from tests.fixtures.oracle import Oracle

STATISTICS = ("ducklake_table_stats", "ducklake_table_column_stats")


@pytest.fixture
def careless(catalog: Catalog, oracle: Oracle) -> Catalog:
    """Give a lake of the extension with 20 rows in a file, then 3 inlined ones."""
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    oracle.execute("CREATE TABLE t (i INTEGER, s STRUCT(a INTEGER))")
    oracle.execute("INSERT INTO t SELECT 1000 + i, {'a': i} FROM range(20) r(i)")
    oracle.execute("INSERT INTO t VALUES (300, NULL), (301, NULL), (302, NULL)")
    oracle.detach()
    return catalog


@pytest.mark.parametrize("lost", [STATISTICS, STATISTICS[:1]], ids=["all", "only the table's row"])
def test_append_and_the_extension_go_on_where_the_row_ids_end(
    careless: Catalog, oracle: Oracle, lost: tuple[str, ...]
) -> None:
    for name in lost:
        run(careless, f"DELETE FROM {name}")

    with Lake.open(careless.url) as lake:
        lake.append("t", [{"i": 1, "s": {"a": -1}}])
    oracle.attach(careless.attach)
    oracle.execute("INSERT INTO t VALUES (2, NULL)")

    expected = [1, 2, 300, 301, 302, *range(1000, 1020)]
    assert oracle.query("SELECT i FROM t ORDER BY i") == [(i,) for i in expected]
    assert oracle.query("SELECT rowid FROM t ORDER BY rowid") == [(i,) for i in range(25)]
    assert oracle.query("SELECT i FROM t WHERE i = 1019 OR i < 3 ORDER BY i DESC") == [(1019,), (2,), (1,)]
    assert oracle.query("SELECT count(*) FROM t WHERE s IS NULL") == [(4,)]
    assert careless.query("SELECT * FROM ducklake_table_column_stats") == []
    assert careless.query("SELECT record_count, next_row_id FROM ducklake_table_stats") == [(25, 25)]
    check_lake(careless)


def test_row_of_nulls_is_replaced(careless: Catalog, oracle: Oracle) -> None:
    run(careless, "UPDATE ducklake_table_stats SET record_count = NULL, file_size_bytes = NULL")

    with Lake.open(careless.url) as lake:
        lake.append("t", [{"i": 1, "s": None}])

    assert careless.query("SELECT record_count, next_row_id FROM ducklake_table_stats") == [(24, 24)]
    oracle.attach(careless.attach)
    assert oracle.query("SELECT min(i), max(i), count(DISTINCT rowid) FROM t") == [(1, 1019, 24)]


def test_delete_and_update_need_no_statistics(careless: Catalog, oracle: Oracle) -> None:
    for name in STATISTICS:
        run(careless, f"DELETE FROM {name}")

    with Lake.open(careless.url) as lake:
        lake.delete("t", "i = 1005 OR i = 300")
        lake.update("t", {"i": 5}, "i = 1006")

    oracle.attach(careless.attach)
    assert oracle.query("SELECT i FROM t WHERE i < 302 ORDER BY i") == [(5,), (301,)]
    assert oracle.query("SELECT count(*), count(DISTINCT rowid) FROM t") == [(21, 21)]
