"""Statements are prepared once per connection to PostgreSQL: up to a limit, and again after a rollback."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from ducklake_core import Lake
from ducklake_core.catalog.postgres import wire
from ducklake_core.catalog.postgres.session import on_postgres
from ducklake_core.catalog.session import Statement
from ducklake_core.errors import CatalogUnavailable
from tests.fixtures.postgres import PostgresDatabase


@pytest.fixture
def lake(postgres_database: PostgresDatabase, tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(postgres_database.url, f"{tmp_path}/data") as lake:
        lake.create_table("t", {"id": "int64"})
        yield lake


def test_statements_are_prepared_once(lake: Lake) -> None:
    for number in range(3):
        lake.append("t", {"id": [number]})
    prepared = names(lake)

    lake.append("t", {"id": [3]})

    assert names(lake) == prepared != []


def test_no_more_are_kept_than_the_limit_and_one_exchange(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_PREPARED", 3)

    for number in range(5):
        lake.append("t", {"id": [number]})

    assert len(names(lake)) <= 3 + 10
    assert sorted(lake.table("t").read()["id"].to_pylist()) == [0, 1, 2, 3, 4]


def test_statements_of_an_aborted_transaction_are_prepared_again(lake: Lake) -> None:
    lake.append("t", {"id": [1]})
    with lake.database.write() as session:
        on_postgres(session).driver.execute("SELECT 1")  # ends without COMMIT: rolled back
        session.begin()

    lake.append("t", {"id": [2]})

    assert sorted(lake.table("t").read()["id"].to_pylist()) == [1, 2]


def test_names_are_those_of_one_connection(lake: Lake, postgres_database: PostgresDatabase) -> None:
    """Behind a pooler that is not seen, the same name would run what another client has prepared."""
    with Lake.open(postgres_database.url) as other:
        for one in (lake, other):
            one.append("t", {"id": [1]})

        assert names(lake) != []
        assert set(names(lake)).isdisjoint(names(other))


def test_statements_that_the_server_does_not_know_are_sent_again(lake: Lake) -> None:
    """So it is when a pooler that is not seen gives us another connection: all of a commit in one round trip."""
    for number in range(3):
        lake.append("t", {"id": [number]})
    with lake.database.read() as session:
        on_postgres(session).driver.execute("DEALLOCATE ALL")

    result = lake.append("t", {"id": [3]})

    assert result is not None
    assert sorted(lake.table("t").read()["id"].to_pylist()) == [0, 1, 2, 3]
    assert names(lake) == []


def test_statements_unknown_in_the_midst_of_a_transaction_end_it(lake: Lake) -> None:
    """What it has done so far is lost: it is for the caller to begin again."""
    question = Statement(text("SELECT 1"))
    with lake.database.read() as session:
        session.run([question])

    def forget_and_ask() -> None:
        with lake.database.read() as session:
            session.begin()
            on_postgres(session).driver.execute("DEALLOCATE ALL")
            session.run([question])

    with pytest.raises(CatalogUnavailable):
        forget_and_ask()

    lake.append("t", {"id": [1]})
    assert lake.table("t").read()["id"].to_pylist() == [1]


def test_only_our_own_are_forgotten(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a pooler that is not seen, another client has prepared some on the same connection."""
    monkeypatch.setattr(wire, "MAX_PREPARED", 3)
    with lake.database.read() as session:
        on_postgres(session).driver.execute("PREPARE another AS SELECT 1")

    for number in range(3):
        lake.append("t", {"id": [number]})

    assert "another" in names(lake)


def test_parameter_of_an_unknown_type_is_refused_before_anything_is_sent(lake: Lake) -> None:
    with lake.database.read() as session:
        insert = Statement(lake.database.tables.ducklake_snapshot.insert(), dict.fromkeys(NAMES, object()))

        with pytest.raises(TypeError, match="no parameters of type object"):
            session.run([insert])
        assert session.query(text("SELECT 1")) == [(1,)]


NAMES = ("snapshot_id", "snapshot_time", "schema_version", "next_catalog_id", "next_file_id")


def names(lake: Lake) -> list[str]:
    """Return what the lake's only connection has prepared; the question itself is not."""
    with lake.database.read() as session:
        rows = on_postgres(session).driver.execute("SELECT name FROM pg_prepared_statements").fetchall()
        return sorted(row[0] for row in rows)
