"""Only ASCII letters are equal regardless of case, as in DuckDB: other names that look alike are not mixed up."""

import pytest

from ducklake_core import Lake
from ducklake_core.errors import ObjectExists
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle


def test_tables_whose_names_fold_alike_are_two(catalog: Catalog, oracle: Oracle) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("straße", {"i": "int32"})
        lake.create_table("strasse", {"i": "int32"})
        lake.append("strasse", {"i": [1]})
        lake.append("straße", {"i": [2]})
        lake.create_table("É", {"i": "int32"})
        lake.create_table("é", {"i": "int32"})
        lake.append("É", {"i": [3]})
        lake.append("é", {"i": [4]})
        tables = ("strasse", "straße", "É", "é", "STRASSE")
        ours = {name: lake.table(name).read().column("i").to_pylist() for name in tables}

    oracle.attach(catalog.attach)
    theirs = {name: [i for (i,) in oracle.query(f'SELECT i FROM "{name}"')] for name in tables}
    assert ours == theirs == {"strasse": [1], "straße": [2], "É": [3], "é": [4], "STRASSE": [1]}


def test_ascii_letters_beside_others_are_equal_regardless_of_case(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("Éa", {"i": "int32"})

        assert lake.table("ÉA").name == "main.Éa"
        with pytest.raises(ObjectExists):
            lake.create_table("ÉA", {"i": "int32"})


def test_columns_whose_names_fold_alike_are_two(catalog: Catalog, oracle: Oracle) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        oracle.attach(catalog.attach)
        oracle.execute('CREATE TABLE t ("É" INT, "é" INT)')
        oracle.execute("INSERT INTO t VALUES (1, 2)")
        lake.append("t", {"é": [4], "É": [3]})
        table = lake.table("t")

        assert table.read(["é"]).to_pylist() == [{"é": 2}, {"é": 4}]
        assert table.read(filter='"é" = 2').to_pylist() == [{"É": 1, "é": 2}]
        lake.update("t", {"é": 5}, '"É" = 3')
    assert sorted(oracle.query("FROM t")) == [(1, 2), (3, 5)]
