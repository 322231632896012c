"""Creating and opening lakes: what is found at an address, and how clearly it is said."""

import socket
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from ducklake_core import Lake
from ducklake_core.errors import (
    CatalogError,
    CatalogUnavailable,
    CorruptCatalog,
    DataPathMismatch,
    InvalidInput,
    LakeExists,
    NoLakeFound,
    UnsupportedFormatVersion,
)
from tests.fixtures.catalogs import Catalog, PostgresCatalog
from tests.fixtures.databases import run
from tests.fixtures.oracle import Oracle
from tests.fixtures.pairs import attach
from tests.fixtures.postgres import PostgresDatabase


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(NoLakeFound, match=r"no lake at 'sqlite.*nothing\.sqlite'.*no such file.*Lake\.create"):
        Lake.open(f"sqlite:///{tmp_path}/nothing.sqlite")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["ducklake_core", "ducklake_sinks", "ducklake_sources", "ducklake_streaming"])
def test_each_package_has_the_version(package: str) -> None:
    assert import_module(package).__version__ == version("ducklake-streaming")


def test_a_database_without_a_lake(catalog: Catalog) -> None:
    run(catalog, "CREATE TABLE other (i INTEGER)")

    with pytest.raises(NoLakeFound, match=r"no table 'ducklake_metadata'.*metadata_schema"):
        Lake.open(catalog.url)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but long enough to be looked at: " * 100)

    with pytest.raises(CatalogError, match=r"notes\.txt' cannot be used as a catalog.*not a database"):
        Lake.open(f"sqlite:///{file}")
    with pytest.raises(CatalogError, match=r"notes\.txt' cannot be used as a catalog.*not a database"):
        Lake.create(f"sqlite:///{file}", str(tmp_path))


def test_a_lake_is_there_already(catalog: Catalog) -> None:
    Lake.create(catalog.url, catalog.data_path).close()
    before = catalog.dump()

    with pytest.raises(LakeExists, match="already: open it"):
        Lake.create(catalog.url, catalog.data_path)

    assert catalog.dump() == before


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3-dev1", "0.3", "0.4"])
def test_older_formats_are_named_with_the_remedy(catalog: Catalog, version: str) -> None:
    Lake.create(catalog.url, catalog.data_path).close()
    run(catalog, f"UPDATE ducklake_metadata SET value = '{version}' WHERE key = 'version'")

    with pytest.raises(UnsupportedFormatVersion, match=f"format '{version}'.*AUTOMATIC_MIGRATION") as error:
        Lake.open(catalog.url)

    assert error.value.version == version


@pytest.mark.parametrize("version", ["1.1-dev1", "1.1", "2.0", "banana"])
def test_newer_and_unknown_formats_are_refused(catalog: Catalog, version: str) -> None:
    Lake.create(catalog.url, catalog.data_path).close()
    run(catalog, f"UPDATE ducklake_metadata SET value = '{version}' WHERE key = 'version'")

    with pytest.raises(UnsupportedFormatVersion, match=f"format '{version}'.*upgrade ducklake-streaming"):
        Lake.open(catalog.url)


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("DELETE FROM ducklake_metadata WHERE key = 'version'", CorruptCatalog, "no row with key 'version'"),
        ("DELETE FROM ducklake_metadata WHERE key = 'data_path'", CatalogError, "no 'data_path'"),
    ],
    ids=["version", "data path"],
)
def test_metadata_that_lacks_something(
    catalog: Catalog, statement: str, error: type[CatalogError], message: str
) -> None:
    Lake.create(catalog.url, catalog.data_path).close()
    run(catalog, statement)

    with pytest.raises(error, match=message):
        Lake.open(catalog.url)


def test_hadoops_name_of_a_storage_is_no_other_data_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ducklake_core.files.storage.open_filesystem", lambda *_, **__: None)  # in place of the network
    url = f"sqlite:///{tmp_path}/l.sqlite"
    Lake.create(url, "s3://bucket/lake").close()

    with Lake.open(url, data_path="s3a://bucket/lake") as lake:
        assert lake.data_path == "s3a://bucket/lake/"
    with pytest.raises(DataPathMismatch):
        Lake.open(url, data_path="gs://bucket/lake")


def test_passwords_of_data_paths_are_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ducklake_core.files.storage.open_filesystem", lambda *_, **__: None)  # in place of the network
    url = f"sqlite:///{tmp_path}/l.sqlite"
    Lake.create(url, "s3://me:pw-secret@bucket/lake").close()

    with pytest.raises(DataPathMismatch, match=r"bucket/lake.*bucket/other") as error:
        Lake.open(url, data_path="s3://me:pw-secret@bucket/other")

    assert "pw-secret" not in str(error.value)


def test_a_data_path_that_is_not_the_lakes(catalog: Catalog, tmp_path: Path) -> None:
    Lake.create(catalog.url, catalog.data_path).close()
    elsewhere = f"{tmp_path}/elsewhere"

    with pytest.raises(DataPathMismatch, match="override_data_path") as error:
        Lake.open(catalog.url, data_path=elsewhere)
    with Lake.open(catalog.url, data_path=elsewhere, override_data_path=True) as moved:
        moved_path = moved.data_path
    with Lake.open(catalog.url, data_path=catalog.data_path.rstrip("/")) as same:
        same_path = same.data_path

    assert (error.value.stored, error.value.wanted) == (catalog.data_path, elsewhere)
    assert moved_path == f"{elsewhere}/"
    assert same_path == catalog.data_path
    with Lake.open(catalog.url) as unchanged:  # overriding writes nothing
        assert unchanged.data_path == catalog.data_path


def test_files_are_found_where_they_were_moved(catalog: Catalog, tmp_path: Path) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64"})
        lake.append("t", {"i": list(range(100))})
    Path(catalog.data_path).rename(tmp_path / "moved")

    with Lake.open(catalog.url, data_path=f"{tmp_path}/moved", override_data_path=True) as lake:
        rows = lake.table("t").read().num_rows

    assert rows == 100


@pytest.mark.parametrize("stored", ["files/lake/", "./", "../"])
def test_relative_data_path_of_a_catalog_is_nowhere_but_in_the_working_directory_unless_it_is_said(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: str
) -> None:
    Lake.create(catalog.url, catalog.data_path).close()
    run(catalog, f"UPDATE ducklake_metadata SET value = '{stored}' WHERE key = 'data_path'")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    for other in (f"{tmp_path}/files/lake", f"{tmp_path}/other", "s3://bucket/files/lake"):
        with pytest.raises(DataPathMismatch, match="override_data_path"):
            Lake.open(catalog.url, data_path=other)
    with Lake.open(catalog.url, data_path=f"{tmp_path}/files/lake", override_data_path=True) as lake:
        assert lake.data_path == f"{tmp_path}/files/lake/"


def test_relative_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oracle: Oracle) -> None:
    monkeypatch.chdir(tmp_path)
    with Lake.create("sqlite:///lake.sqlite", "files") as lake:
        lake.create_table("t", {"i": "int64"})
        lake.append("t", {"i": list(range(100))})
    monkeypatch.chdir("/")

    with Lake.open(f"sqlite:///{tmp_path}/lake.sqlite") as lake:
        ours = lake.table("t").read().num_rows
        path = lake.data_path
    oracle.attach(f"ducklake:sqlite:{tmp_path}/lake.sqlite")

    assert (ours, path) == (100, f"{tmp_path}/files/")
    assert oracle.query("SELECT count(*) FROM lake.t") == [(100,)]


def test_a_lake_needs_a_data_path(catalog: Catalog) -> None:
    with pytest.raises(InvalidInput, match="data path"):
        Lake.create(catalog.url, "")


def test_an_unreachable_server_is_named_without_its_password(postgres_database: PostgresDatabase) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        for url in (
            f"postgresql://ann:s3cret@127.0.0.1:{port}/lake",
            f"ducklake:postgres:dbname=lake host=127.0.0.1 port={port} user=ann password=s3cret",
        ):
            with pytest.raises(CatalogUnavailable, match=f"cannot connect to catalog.*127.0.0.1:{port}") as error:
                Lake.open(url, catalog_timeout=0)
            chain = [error.value, error.value.__cause__, error.value.__context__]
            assert not any("s3cret" in f"{e} {e!r}" for e in chain)
    missing = PostgresDatabase("not_there", postgres_database.port)
    with pytest.raises(CatalogError, match=r'not_there".* does not exist; create the database'):
        Lake.open(missing.url)


def test_attach_strings_of_duckdb_open_the_same_lake(catalog: Catalog, shared_oracle: Oracle) -> None:
    attach(shared_oracle, catalog, "lake")
    shared_oracle.execute("CREATE TABLE lake.t (i INTEGER); INSERT INTO lake.t VALUES (7)")

    for address in (catalog.attach, catalog.attach.removeprefix("ducklake:"), catalog.url):
        with Lake.open(address) as lake:
            assert lake.table("t").read().to_pylist() == [{"i": 7}]


@pytest.mark.parametrize(
    "address",
    [
        "",
        "lake",
        "mysql://u:pw-secret@h/db",
        "duckdb:///x",
        "sqlite://",
        "sqlite:///:memory:",
        "ducklake:postgres:nonsense",
    ],
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(InvalidInput, match="sqlite:///") as error:
        Lake.open(address)

    assert "pw-secret" not in str(error.value)


def test_a_metadata_schema_of_postgresql_is_shared_with_the_extension(
    postgres_database: PostgresDatabase, tmp_path: Path, shared_oracle: Oracle
) -> None:
    schemas = ("ours", 'the "odd" % one')
    for schema in schemas:
        place = PostgresCatalog(postgres_database, f"{tmp_path}/{schema[:4]}/", schema=schema)
        with Lake.create(place.url, place.data_path, metadata_schema=schema) as lake:
            lake.create_table("t", {"i": "int32", "s": "varchar"})
            lake.append("t", {"i": [1], "s": [schema]})
            lake.append("t", {"i": list(range(50)), "s": ["x"] * 50})
            lake.delete("t", "i = 3")
        attach(shared_oracle, place, "lake", {"metadata_schema": schema})
        shared_oracle.execute("INSERT INTO lake.t VALUES (2, 'theirs')")
        theirs = shared_oracle.query("SELECT count(*) FROM lake.t")
        shared_oracle.execute("DETACH lake")
        with Lake.open(place.url, metadata_schema=schema) as lake:
            assert [(lake.table("t").count(),)] == theirs == [(51,)]

    with pytest.raises(NoLakeFound, match="metadata_schema"):
        Lake.open(postgres_database.url)
    with pytest.raises(NoLakeFound):
        Lake.open(postgres_database.url, metadata_schema="another")
    with pytest.raises(InvalidInput, match="SQLite"):
        Lake.open(f"sqlite:///{tmp_path}/x.sqlite", metadata_schema="s")
