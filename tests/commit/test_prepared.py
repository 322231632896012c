"""Statements are prepared once per connection to PostgreSQL: up to a limit, and again after a rollback."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from ducklake_core import Lake
from ducklake_core.catalog import wire
from ducklake_core.catalog.database import Statement
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
    monkeypatch.setattr(wire, "MOST_PREPARED", 3)

    for number in range(5):
        lake.append("t", {"id": [number]})

    assert len(names(lake)) <= 3 + 10
    assert sorted(lake.table("t").read()["id"].to_pylist()) == [0, 1, 2, 3, 4]


def test_statements_of_an_aborted_transaction_are_prepared_again(lake: Lake) -> None:
    lake.append("t", {"id": [1]})
    with lake.database.write() as session:
        session.driver.execute("SELECT 1")  # ends without COMMIT: rolled back
        session.begin()

    lake.append("t", {"id": [2]})

    assert sorted(lake.table("t").read()["id"].to_pylist()) == [1, 2]


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
        rows = session.driver.execute("SELECT name FROM pg_prepared_statements").fetchall()
        return sorted(row[0] for row in rows)
