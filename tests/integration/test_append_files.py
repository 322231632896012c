"""Files that were written elsewhere, as executors do it, become rows of a table by one commit."""

import pickle
from collections.abc import Callable

import pyarrow as pa

from ducklake_core import Lake
from ducklake_core.files.parquet_writer import write_data_files
from ducklake_core.row_writes import file_layout
from ducklake_core.spec.options import TableOptions
from ducklake_core.transaction import Transaction
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.pairs import attach

ROWS = pa.table({"id": pa.array(range(40), pa.int64())})


def test_files_written_elsewhere_are_added_by_one_commit(catalog: Catalog, oracle: Oracle) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", ROWS.schema, partition_by=["bucket(2, id)"])

        with lake.transaction() as tx:
            layout = pickle.loads(pickle.dumps(file_layout(tx.table_version("t"), TableOptions())))  # noqa: S301 # our own bytes
            files = write_data_files(lake.storage, layout, ROWS)
            tx.append_files("t", pickle.loads(pickle.dumps(files)))  # noqa: S301 # our own bytes

        table = lake.table("t")
        assert len(table.files()) == len(files) == 2
        assert sorted(table.read().column("id").to_pylist()) == list(range(40))
    attach(oracle, catalog, "lake")
    assert oracle.query("SELECT count(*), count(DISTINCT rowid), max(id) FROM lake.t") == [(40, 40, 39)]


def test_files_of_a_transaction_that_fails_are_removed(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", ROWS.schema)
        tx = lake.transaction()
        files = write_data_files(lake.storage, file_layout(tx.table_version("t"), TableOptions()), ROWS)
        tx.append_files("t", files)

        tx.discard()

        assert not lake.storage.exists(lake.table("t").version.directory + files[0].path)
        assert lake.table("t").count() == 0


def test_files_that_are_lent_stay_for_another_transaction(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", ROWS.schema)
        first = lake.transaction()
        files = write_data_files(lake.storage, file_layout(first.table_version("t"), TableOptions()), ROWS)
        first.append_files("t", files, lent=True)
        first.discard()

        with lake.transaction() as second:
            second.append_files("t", files)

        assert lake.table("t").count() == 40


def test_files_that_are_lent_stay_also_where_rows_of_them_change(catalog: Catalog) -> None:
    changes: dict[str, Callable[[Transaction], object]] = {
        "upsert": lambda tx: tx.upsert("t", {"id": [3], "v": ["new"]}, keys="id"),
        "update": lambda tx: tx.update("t", {"v": "new"}, "id = 3"),
        "delete": lambda tx: tx.delete("t", "id = 3"),
    }
    rows = ROWS.append_column("v", pa.array(["old"] * 40))
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", rows.schema)
        layout = file_layout(lake.table("t").version, TableOptions())
        files = write_data_files(lake.storage, layout, rows)
        for change in changes.values():
            first = lake.transaction()
            first.append_files("t", files, lent=True)
            change(first)
            first.discard()
            assert lake.storage.exists(layout.directory + files[0].path)

        with lake.transaction() as second:
            second.append_files("t", files)

        assert lake.table("t").count() == 40
