"""Each way to hand over a password that `docs/secrets.md` names works, and no message shows the password."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from ducklake_core import Lake
from ducklake_streaming.demo.local_postgres import (
    HOST,
    create_database,
    free_port,
    make_cluster,
    make_directory,
    running,
)
from tests.fixtures.postgres import FAST_AND_FRAGILE

PASSWORD = "s3cret"  # noqa: S105 # of a server that lives for these tests


@dataclass(frozen=True, slots=True)
class GuardedLake:
    """A lake whose catalog asks user `writer` for a password."""

    port: int
    password_file: Path
    service_file: Path

    @property
    def server(self) -> str:
        return f"{HOST}:{self.port}"


@pytest.fixture(scope="module")
def guarded_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedLake]:
    """Run a server that trusts only the user who set it up."""
    folder, directory = tmp_path_factory.mktemp("secrets"), make_directory()
    cluster = make_cluster(directory, HOST, free_port(), FAST_AND_FRAGILE)
    (cluster.data / "pg_hba.conf").write_text("host all lake all trust\nhost all all all scram-sha-256\n")
    guarded = GuardedLake(cluster.port, folder / "pgpass", folder / "pg_service.conf")
    guarded.password_file.write_text(f"{HOST}:{cluster.port}:*:writer:{PASSWORD}\n")
    guarded.password_file.chmod(0o600)
    facts = f"host={HOST}\nport={cluster.port}\ndbname=lake\nuser=writer\npassword={PASSWORD}\n"
    guarded.service_file.write_text(f"[lake]\n{facts}")
    try:
        with running(cluster):
            create_database(cluster, "lake")
            with psycopg.connect(cluster.conninfo("lake"), autocommit=True) as connection:
                connection.execute(f"CREATE ROLE writer LOGIN PASSWORD '{PASSWORD}'")
                connection.execute("ALTER SCHEMA public OWNER TO writer")
            Lake.create(f"postgresql://writer:{PASSWORD}@{guarded.server}/lake", str(folder / "data")).close()
            yield guarded
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("postgresql://writer@{server}/lake", ["PGPASSFILE"]),
        ("postgresql://writer@{server}/lake", ["PGPASSWORD"]),
        ("postgresql:///?service=lake", ["PGSERVICEFILE"]),
        ("ducklake:postgres:service=lake", ["PGSERVICEFILE"]),
        ("postgresql://", ["PGSERVICE", "PGSERVICEFILE"]),
        ("postgresql://", ["PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD"]),
        ("postgresql://writer@{server}/lake?sslmode=prefer", ["PGPASSWORD"]),
        ("postgresql://writer:s3cret@{server}/lake", []),
    ],
    ids=["file", "variable", "service", "attach string", "service variable", "all variables", "parameter", "url"],
)
def test_password_comes_from(
    guarded_lake: GuardedLake, monkeypatch: pytest.MonkeyPatch, url: str, names: list[str]
) -> None:
    values = {
        "PGPASSFILE": str(guarded_lake.password_file),
        "PGPASSWORD": PASSWORD,
        "PGSERVICE": "lake",
        "PGSERVICEFILE": str(guarded_lake.service_file),
        "PGHOST": HOST,
        "PGPORT": str(guarded_lake.port),
        "PGDATABASE": "lake",
        "PGUSER": "writer",
    }
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    for name in names:
        monkeypatch.setenv(name, values[name])

    with Lake.open(url.format(server=guarded_lake.server)) as lake:
        assert len(lake.snapshots()) == 1
        assert PASSWORD not in lake.database.url.shown
