"""Counting needs no row ids: a file of another writer that has none is counted as it is read."""

import pyarrow as pa

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.databases import run


def test_rows_of_a_file_without_row_ids_are_counted(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64"})
        lake.append("t", pa.table({"id": range(40)}))
        lake.delete("t", "id < 15")
        run(catalog, "UPDATE ducklake_data_file SET row_id_start = NULL")
        table = lake.table("t")

        assert table.read(filter="id < 20").num_rows == 5
        assert table.count("id < 20") == 5
        assert table.count() == 25
