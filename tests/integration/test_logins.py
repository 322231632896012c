"""How a catalog on PostgreSQL lets us in: TLS that is verified, SCRAM, client certificates, files of libpq's own.

And a password that is changed while a lake is open: it is read again where it was found.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from ducklake_core import Lake
from ducklake_core.catalog.postgres.session import on_postgres
from ducklake_core.errors import CatalogError, CatalogForbidden, DuckLakeError
from ducklake_core.observe import Event, Recorder, Retried
from ducklake_core.references import resolve
from ducklake_streaming.demo.local_postgres import HOST
from tests.fixtures.certificates import Certificates
from tests.fixtures.postgres import PostgresDatabase, PostgresServer, run_postgres
from tests.fixtures.waiting import wait_until

RULES = """
hostssl all writer all scram-sha-256
hostssl all client all cert
host all writer,client all reject
"""


@dataclass(frozen=True, slots=True)
class StrictServer:
    """A server that asks `writer` for a password and `client` for a certificate, both over TLS alone."""

    database: PostgresDatabase
    certificates: Certificates

    def url(self, login: str, host: str = HOST, **parameters: str) -> str:
        given = {"sslmode": "verify-full", "sslrootcert": self.certificates.authority, **parameters}
        query = "&".join(f"{name}={value}" for name, value in given.items())
        return f"postgresql://{login}@{host}:{self.database.port}/{self.database.name}?{query}"

    @property
    def service(self) -> str:
        """The server as a service `lake` of libpq, without the password."""
        return (
            f"[lake]\nhost={HOST}\nport={self.database.port}\ndbname={self.database.name}\nuser=writer\n"
            f"sslmode=verify-full\nsslrootcert={self.certificates.authority}\n"
        )

    def set_password(self, password: str) -> None:
        """Give the writer another password, and end the connections that it has."""
        with psycopg.connect(self.database.conninfo, autocommit=True) as connection:
            connection.execute(f"ALTER ROLE writer PASSWORD '{password}'".encode())
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'writer'")


@pytest.fixture(scope="module")
def strict(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StrictServer]:
    with run_postgres() as server:
        database = server.create_database()
        with psycopg.connect(database.conninfo, autocommit=True) as connection:
            connection.execute(
                "CREATE ROLE writer LOGIN SUPERUSER PASSWORD 'first'; CREATE ROLE client LOGIN SUPERUSER"
            )
            _encrypt(server, certificates, connection)
        Lake.create(database.url, str(tmp_path_factory.mktemp("data"))).close()
        Path(certificates.client).chmod(0o600)
        yield StrictServer(database, certificates)


def _encrypt(server: PostgresServer, certificates: Certificates, connection: "psycopg.Connection[object]") -> None:
    """Turn TLS on, and let in who proves who they are."""
    files = {"ssl_cert_file": certificates.server, "ssl_key_file": certificates.server}
    files |= {"ssl_ca_file": certificates.authority}
    for setting, file in files.items():
        copied = Path(shutil.copy(file, server.directory / f"{setting}.pem"))
        shutil.chown(copied, server.directory.owner())
        copied.chmod(0o600)
        connection.execute(f"ALTER SYSTEM SET {setting} = '{copied}'".encode())
    rules = server.directory / "data" / "pg_hba.conf"
    rules.write_text(f"{RULES}{rules.read_text()}")
    connection.execute("ALTER SYSTEM SET ssl = on")
    connection.execute("SELECT pg_reload_conf()")


def is_encrypted(url: str) -> bool:
    with Lake.open(url, catalog_timeout=20) as lake, lake.database.read() as session:
        session.begin()
        asked = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        return bool(on_postgres(session).driver.execute(asked).fetchall()[0][0])


def test_password_and_certificates_are_let_in_over_tls(strict: StrictServer) -> None:
    client = {"sslcert": strict.certificates.client, "sslkey": strict.certificates.client}
    strict.set_password("first")

    assert is_encrypted(strict.url("writer:first", channel_binding="require"))
    assert is_encrypted(strict.url("writer:first", require_auth="scram-sha-256"))
    assert is_encrypted(strict.url("client", **client))


def test_who_is_not_let_in_is_told_at_once(strict: StrictServer, caplog: pytest.LogCaptureFixture) -> None:
    strict.set_password("first")
    refused: list[tuple[str, type[DuckLakeError], str]] = [
        (strict.url("writer:wrong"), CatalogForbidden, "28P01"),
        (strict.url("writer"), CatalogForbidden, "28P01"),
        (strict.url("client"), CatalogForbidden, "28000"),
        (strict.url("writer:first", sslmode="disable"), CatalogForbidden, "28000"),
        (strict.url("writer:first", sslrootcert=strict.certificates.client), CatalogError, "08001"),
        (strict.url("writer:first", host="localhost"), CatalogError, "08001"),
        (strict.url("writer:first", sslrootcert="/no/such/file"), CatalogError, "08001"),
    ]

    for url, kind, code in refused:
        with pytest.raises(kind) as caught:
            Lake.open(url, catalog_timeout=10)
        assert caught.value.sqlstate == code, caught.value
        assert "first" not in str(caught.value)
    assert not caplog.records  # nobody has waited


def test_services_and_password_files_are_libpqs_own(
    strict: StrictServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict.set_password("first")
    passwords, services = tmp_path / "pgpass", tmp_path / "services"
    write_passfile(passwords, "first")
    services.write_text(strict.service)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    monkeypatch.setenv("PGSERVICEFILE", str(services))

    assert is_encrypted(strict.url("writer"))
    assert is_encrypted("postgresql:///?service=lake")
    assert is_encrypted("ducklake:postgres:service=lake")
    monkeypatch.setenv("PGSERVICE", "lake")
    assert is_encrypted("postgresql://")


def write_passfile(file: Path, password: str) -> None:
    file.write_text(f"*:*:*:writer:{password}\n")
    file.chmod(0o600)


def write_secret(file: Path, password: str) -> None:
    file.write_text(f"{password}\n")


class Waits(Recorder):
    """Notes that somebody waits."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def record(self, event: Event) -> None:
        if isinstance(event, Retried):
            self.reasons.append(str(event.cause))


@pytest.mark.parametrize("way", ["passfile", "reference", "service"])
def test_password_that_is_changed_is_read_again(
    strict: StrictServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    file = tmp_path / "password"
    write_service = lambda file, password: file.write_text(f"{strict.service}password={password}\n")  # noqa: E731 # it knows the server
    ways: dict[str, tuple[Callable[[Path, str], object], str]] = {
        "passfile": (write_passfile, strict.url("writer")),
        "reference": (write_secret, strict.url(f"writer:${{file:{file}}}")),
        "service": (write_service, "postgresql://"),
    }
    write, url = ways[way]
    strict.set_password("first")
    write(file, "first")
    if way == "service":
        monkeypatch.setenv("PGSERVICEFILE", str(file))
        monkeypatch.setenv("PGSERVICE", "lake")
    monkeypatch.setenv("PGPASSFILE", str(file) if way == "passfile" else "/no/such/file")
    address = resolve(url)
    waits = Waits()
    with Lake.open(address, recorder=waits, catalog_timeout=60) as lake:
        lake.create_table(f"t_{way}", {"i": "int64"})

        strict.set_password("second")
        write(file, "second")
        lake.append(f"t_{way}", {"i": [1]})  # the file was first
        appended = threading.Thread(target=lambda: lake.append(f"t_{way}", {"i": [2]}))
        strict.set_password("third")
        appended.start()
        wait_until(lambda: any("authentication failed" in one for one in waits.reasons), seconds=30)
        write(file, "third")
        appended.join()

        assert sorted(lake.table(f"t_{way}").read()["i"].to_pylist()) == [1, 2]
    assert not any(word in reason for reason in waits.reasons for word in ("first", "second", "third"))
