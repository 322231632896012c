"""Whether a catalog can be written to, or a lake be made: asked without changing anything."""

from pathlib import Path

import psycopg
import pytest

from ducklake_core import Lake
from ducklake_core.errors import CatalogForbidden
from tests.fixtures.catalogs import Catalog, PostgresCatalog

on_postgres = pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)


def test_rights_are_asked_for_without_changing_anything(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64"})
        lake.append("t", {"i": [1]})
        lake.consumers()  # makes our own tables
        before = catalog.dump()

        lake.check_rights()

    assert catalog.dump() == before


def test_whether_a_lake_can_be_made_is_asked_without_making_it(catalog: Catalog, tmp_path: Path) -> None:
    Lake.check_can_create(catalog.url, catalog.data_path)

    assert list(tmp_path.iterdir()) == []
    assert not isinstance(catalog, PostgresCatalog) or catalog.columns() == {}


def test_a_file_in_a_place_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(CatalogForbidden, match="may not create a lake in"):
        Lake.check_can_create(f"sqlite:///{tmp_path}/file/lake.sqlite", f"{tmp_path}/data")


@on_postgres
@pytest.mark.parametrize("grant", ["SELECT", "SELECT, INSERT", "SELECT, INSERT, UPDATE, DELETE"])
def test_a_user_who_lacks_a_right_is_told_so(catalog: PostgresCatalog, grant: str) -> None:
    Lake.create(catalog.url, catalog.data_path).close()
    with psycopg.connect(catalog.database.conninfo, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS limited; CREATE ROLE limited LOGIN")
        connection.execute(f"GRANT {grant} ON ALL TABLES IN SCHEMA public TO limited".encode())
    url = catalog.url.replace("lake@", "limited@")

    try:
        with Lake.open(url) as lake, pytest.raises(CatalogForbidden, match="may not write to"):
            lake.check_rights()
        with pytest.raises(CatalogForbidden, match="may not create a lake in"):
            Lake.check_can_create(url, catalog.data_path, metadata_schema="other")
    finally:
        with psycopg.connect(catalog.database.conninfo, autocommit=True) as connection:
            connection.execute("DROP OWNED BY limited; DROP ROLE limited")
