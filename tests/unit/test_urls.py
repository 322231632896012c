"""Addresses of catalogs."""

from pathlib import Path

import pytest

from ducklake_core.catalog.urls import CatalogUrl
from ducklake_core.errors import InvalidInput


@pytest.mark.parametrize(
    "text", ["sqlite:////lakes/l.sqlite", "ducklake:sqlite:/lakes/l.sqlite", "sqlite:/lakes/l.sqlite"]
)
def test_a_sqlite_file_by_url_and_by_attach_string(text: str) -> None:
    url = CatalogUrl.parse(text)

    assert url.url.get_backend_name() == "sqlite"
    assert url.url.database == "/lakes/l.sqlite"


def test_a_sqlite_file_is_shown_as_users_write_it() -> None:
    assert CatalogUrl.parse("sqlite:////lakes/l.sqlite").shown == "sqlite:////lakes/l.sqlite"


@pytest.mark.parametrize(
    "text", ["sqlite://lake.sqlite", "sqlite://data/lake.sqlite", "ducklake:sqlite://data/l.sqlite"]
)
def test_a_sqlite_url_with_a_host_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="three slashes before a relative path, four before an absolute one"):
        CatalogUrl.parse(text)


def test_a_relative_sqlite_file_is_made_absolute_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    assert CatalogUrl.parse("sqlite:///l.sqlite").url.database == str(tmp_path / "l.sqlite")


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://joe:secret@db:5433/lake",
        "postgres://joe:secret@db:5433/lake",
        "postgresql+psycopg://joe:secret@db:5433/lake",
        "ducklake:postgres:dbname=lake host=db port=5433 user=joe password=secret",
        "ducklake:postgresql:dbname=lake host=db port=5433 user=joe password=secret",
        "ducklake:postgres:postgresql://joe:secret@db:5433/lake",
    ],
)
def test_postgresql_by_url_and_by_attach_string(text: str) -> None:
    url = CatalogUrl.parse(text, metadata_schema="meta")

    assert url.url.render_as_string(hide_password=False) == "postgresql+psycopg://joe:secret@db:5433/lake"
    assert url.metadata_schema == "meta"
    assert url.shown == "postgresql://joe:***@db:5433/lake"


def test_other_conninfo_settings_are_kept() -> None:
    url = CatalogUrl.parse("ducklake:postgres:dbname=lake host=/run/pg sslmode=require")

    assert url.url.query == {"sslmode": "require"}
    assert url.url.host == "/run/pg"


@pytest.mark.parametrize(
    "text",
    ["mysql://h/db", "ducklake:lake.ducklake", "nonsense", "sqlite://", "sqlite:///:memory:", "postgres:host = = x"],
)
def test_what_cannot_be_a_catalog_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidInput, match="sqlite"):
        CatalogUrl.parse(text)


def test_a_secret_is_not_in_the_error_of_an_address_that_cannot_be_read() -> None:
    with pytest.raises(InvalidInput) as caught:
        CatalogUrl.parse("ducklake:postgres:dbname=lake password='hunter2")

    assert "hunter2" not in str(caught.value)


def test_a_metadata_schema_makes_no_sense_on_sqlite() -> None:
    with pytest.raises(InvalidInput, match="PostgreSQL"):
        CatalogUrl.parse("sqlite:///l.sqlite", metadata_schema="meta")


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://db/lake?user=me&password=secret",
        "postgresql://me:secret@db/lake",
        "ducklake:postgres:host=db dbname=lake user=me password=secret sslpassword=secret",
        "ducklake:postgres:postgres://me:secret@db/lake",
    ],
)
def test_no_password_is_shown_wherever_it_stands(text: str) -> None:
    shown = CatalogUrl.parse(text).shown

    assert "secret" not in shown
    assert "/lake" in shown
