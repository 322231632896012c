"""What a catalog database refuses is told at once, by our own errors, with what helps and without a secret."""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from ducklake_core import Lake
from ducklake_core.catalog.dbapi.sqlite_errors import SQLITE_CODES
from ducklake_core.catalog.driver_errors import Fault
from ducklake_core.catalog.postgres.connections import has_wrong_parameter
from ducklake_core.catalog.postgres.errors import SQLSTATES, meaning_of
from ducklake_core.errors import CatalogError, CatalogForbidden, CatalogUnavailable, DuckLakeError, InvalidInput
from ducklake_streaming.demo.local_postgres import HOST
from tests.fixtures.postgres import PostgresServer, run_postgres

SECRET = "hush-hush"  # noqa: S105 # of a test

ROLES = f"""
    CREATE ROLE asked LOGIN PASSWORD '{SECRET}'; CREATE ROLE outside NOLOGIN; CREATE ROLE unwanted LOGIN;
    CREATE ROLE crowd LOGIN CONNECTION LIMIT 0; CREATE ROLE stranger LOGIN
"""


@pytest.fixture(scope="module")
def guarded() -> Iterator[PostgresServer]:
    """Give a server that asks one of its users for a password, and lets others not in."""
    with run_postgres() as server, psycopg.connect(server.maintenance.conninfo, autocommit=True) as connection:
        for statement in ROLES.split(";"):
            connection.execute(statement.encode())
        connection.execute("CREATE DATABASE private")
        connection.execute("REVOKE CONNECT ON DATABASE private FROM public")
        rules = server.directory / "data" / "pg_hba.conf"
        rules.write_text(f"host all asked all scram-sha-256\nhost all stranger all reject\n{rules.read_text()}")
        loaded = "SELECT pg_conf_load_time()"
        before = connection.execute(loaded).fetchone()
        connection.execute("SELECT pg_reload_conf()")
        while connection.execute(loaded).fetchone() == before:
            pass
        yield server


@pytest.mark.parametrize(
    ("address", "error", "sqlstate", "message"),
    [
        (
            f"asked:wrong-{SECRET}@{{}}/postgres",
            CatalogForbidden,
            "28P01",
            "password authentication failed.*PGPASSFILE",
        ),
        ("asked@{}/postgres", CatalogForbidden, "28P01", "no password supplied.*PGPASSWORD"),
        ("nobody_there@{}/postgres", CatalogForbidden, "28000", '"nobody_there" does not exist.*check the user'),
        ("outside@{}/postgres", CatalogForbidden, "28000", "not permitted to log in.*check the user"),
        ("stranger@{}/postgres", CatalogForbidden, "28000", "pg_hba.conf"),
        ("lake@{}/not_there", CatalogError, "3D000", '"not_there" does not exist; create the database, or correct'),
        ("unwanted@{}/private", CatalogForbidden, "42501", "permission denied for database"),
        ("lake@{}/postgres?options=-c%20nonsense%3D1", CatalogError, "42704", "nonsense.*check the parameters"),
        ("lake@{}/postgres?options=-c%20work_mem%3Dx", CatalogError, "22023", "work_mem.*check the parameters"),
        ("lake@{}/postgres?sslmode=nonsense", CatalogError, "08001", "sslmode.*check the parameters"),
        ("lake@{}/postgres?sslmode=require", CatalogError, "08001", "SSL was required; check the parameters"),
        ("lake@{}/postgres?service=nonsense", CatalogError, "08001", "service.*not found; check the parameters"),
        ("lake@{}/postgres?require_auth=md5", CatalogError, "08001", "requirement.*check the parameters"),
    ],
)
def test_refused_connection_is_told_at_once(
    guarded: PostgresServer,
    address: str,
    error: type[DuckLakeError],
    sqlstate: str,
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(error, match=message) as caught:
        Lake.open("postgresql://" + address.format(f"{HOST}:{guarded.port}"))

    assert type(caught.value) is error
    assert caught.value.sqlstate == sqlstate
    assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert not caplog.records  # nobody has waited


def test_server_without_a_free_connection_is_waited_for(
    guarded: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"postgresql://crowd@{HOST}:{guarded.port}/postgres"

    with caplog.at_level(logging.WARNING), pytest.raises(CatalogUnavailable, match="too many connections") as caught:
        Lake.open(url, catalog_timeout="100ms")

    assert caught.value.sqlstate == "53300"
    assert any(record.message.startswith("catalog_unavailable ") for record in caplog.records)


def test_refusal_has_its_code_in_every_language(guarded: PostgresServer) -> None:
    """The server's words change with `lc_messages`, its codes do not; where it has no other language, nothing does."""
    with psycopg.connect(guarded.maintenance.conninfo, autocommit=True) as connection:
        found = connection.execute("SELECT collname FROM pg_collation WHERE collname LIKE 'de_DE%utf8'").fetchall()
    if not found:
        pytest.skip("the machine has no German locale for the server")
    with run_postgres({"lc_messages": found[0][0]}) as server, pytest.raises(CatalogError) as caught:
        Lake.open(f"postgresql://lake@{HOST}:{server.port}/not_there")

    assert caught.value.sqlstate == "3D000"


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("57P01", Fault.AWAY), ("57P02", Fault.AWAY), ("57P03", Fault.AWAY), ("57P05", Fault.AWAY),
        ("53300", Fault.AWAY), ("08006", Fault.AWAY), ("08P01", Fault.AWAY), ("55P03", Fault.AWAY),
        ("28P01", Fault.NOT_LET_IN), ("3D000", Fault.WRONG_ADDRESS), ("57P04", Fault.WRONG_ADDRESS),
        ("42501", Fault.FORBIDDEN), ("25006", Fault.READ_ONLY), ("54011", Fault.LIMIT), ("54000", Fault.LIMIT),
        ("40001", Fault.CONTENTION), ("23505", Fault.CONTENTION), ("42P01", Fault.MISSING), ("42601", Fault.REFUSED),
        ("42P06", Fault.CONTENTION), ("42P07", Fault.CONTENTION), ("42710", Fault.CONTENTION), ("25P03", Fault.AWAY),
    ],
)  # fmt: skip
def test_code_of_the_server_means_what_the_table_says(code: str, fault: Fault) -> None:
    error = psycopg.errors.lookup(code)("…")

    assert meaning_of(error).fault is fault


def test_whatever_cannot_pass_by_itself_says_what_helps() -> None:
    passing = {Fault.AWAY, Fault.CONTENTION, Fault.MISSING}

    silent = [code for code, one in {**SQLSTATES, **SQLITE_CODES}.items() if one.fault not in passing and not one.helps]

    assert silent == ["42501"], "what helps is told by the error itself"
    assert "roles.sql" in meaning_of(psycopg.errors.lookup("42501")("…")).helps


def test_parameters_that_are_right_are_not_called_wrong_when_nobody_listens() -> None:
    assert not has_wrong_parameter("host=/nowhere user=lake")
    assert has_wrong_parameter("host=/nowhere user=lake sslmode=nonsense")


@pytest.mark.parametrize(
    "act",
    [lambda lake: lake.set_option("auto_compact", value=True), lambda lake: lake.forget_consumer("c")],
    ids=["set_option", "forget_consumer"],
)
def test_locked_file_is_our_error(tmp_path: Path, act: Callable[[Lake], object]) -> None:
    with Lake.create(f"sqlite:///{tmp_path}/lake.sqlite", f"{tmp_path}/data", catalog_timeout="50ms") as lake:
        lake.consumers()  # makes the ledger
        rival = sqlite3.connect(tmp_path / "lake.sqlite", isolation_level=None)
        rival.execute("BEGIN IMMEDIATE")

        with pytest.raises(CatalogUnavailable, match="database is locked"):
            act(lake)

        rival.execute("ROLLBACK")
        rival.close()
        lake.set_option("auto_compact", value=True)


def test_timeout_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="catalog_timeout is 'soon', but must be a number of seconds"):
        Lake.create(f"sqlite:///{tmp_path}/lake.sqlite", f"{tmp_path}/data", catalog_timeout="soon")
