"""docs/postgres.md: its commands run on a real server, and what it says of a restored lake is so.

As in life: a stream and a feed go on after the backup, files come and go, then the catalog is set back.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from ducklake_core import Epoch, Lake
from ducklake_core.errors import LedgerBehind, OffsetMismatch, UnreadableFile
from ducklake_streaming.cli import main
from ducklake_streaming.demo.local_postgres import (
    HOST,
    as_server_user,
    find_binaries,
    free_port,
    make_cluster,
    make_directory,
)
from tests.docs.console_blocks import BLOCK
from tests.fixtures.postgres import FAST, PostgresDatabase, RestartingPostgres
from tests.fixtures.pulls import FEED, Offset, Pull
from tests.fixtures.roles import find_client
from tests.fixtures.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "postgres.md").read_text()
SQL = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BEFORE, LATER = 3, 2  # batches


@dataclass(slots=True)
class Place:
    """A server whose log is archived, a lake on it, and where the page's commands run."""

    server: RestartingPostgres
    folder: Path  # of the server's user
    data: Path
    target: str = ""

    @property
    def database(self) -> PostgresDatabase:
        return PostgresDatabase("lake", self.server.port)

    def run_block(self, beginning: str) -> None:
        """Run the commands of the page's block that begins so."""
        [block] = [block for block in BLOCK.findall(PAGE) if block.startswith(f"$ {beginning}")]
        for command in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
            self._run(command.replace("/backup", str(self.folder / "backup")))

    def _run(self, command: str) -> None:
        find_client("pg_basebackup")
        environment = {
            "PATH": f"{find_binaries()}:{os.environ['PATH']}",
            "LAKE": self.database.conninfo,
            "ADMIN": self.server.maintenance.conninfo,
            "RESTORED": self.database.conninfo.replace("dbname=lake", "dbname=lake_restored"),
            "PGDATA": str(self.server.directory / "data"),
            "TARGET": self.target,
        }
        inside = command.replace("deploy/postgres", str(self.folder / "postgres"))
        done = subprocess.run(
            ["/bin/bash", "-c", inside],
            check=False,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            **as_server_user(),
        )
        assert (done.returncode, done.stderr) == (0, ""), command

    def ask(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.server.maintenance.conninfo, autocommit=True) as connection:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder, directory = make_directory(), make_directory()
    wal = folder / "backup" / "wal"
    archive = {"archive_mode": "on", "archive_command": f"cp %p {wal}/%f"}
    server = RestartingPostgres(make_cluster(directory, HOST, free_port(), {**FAST, **archive}))
    try:
        wal.mkdir(parents=True)
        shutil.copytree(ROOT / "deploy" / "postgres", folder / "postgres")
        for path in (folder / "backup", wal):
            shutil.chown(path, folder.owner())
        server.start()
        made = Place(server, folder, tmp_path / "data")
        made.ask("CREATE DATABASE lake TEMPLATE template0")
        yield made
        server.stop()
    finally:
        for path in (folder, directory):
            shutil.rmtree(path, ignore_errors=True)


class Life:
    """What a stream and a feed do to a lake, and how far they have come."""

    def __init__(self, place: Place) -> None:
        self.lake = Lake.create(place.database.url, str(place.data))
        self.lake.set_option("data_inlining_row_limit", 10)
        self.lake.create_table("orders", {"id": "int64"})
        self.lake.create_table("kept", {"id": "int64"})
        self.lake.append("kept", pa.table({"id": range(50)}))
        self.offset: Offset = {}
        self.url = place.database.url

    def commit(self, batch: int) -> None:
        """Write a batch: every other one is a file."""
        rows = pa.table({"id": range(100 * batch, 100 * batch + (50 if batch % 2 else 2))})
        self.lake.ledger_entry("orders")
        self.lake.commit_epoch(Epoch("orders", batch, "query", "run"), lambda tx: tx.append("orders", rows))

    def follow(self) -> None:
        """Read the feed to its end, from its checkpoint."""
        pull = Pull(self.offset or None, catalog=self.url, table="orders", **FEED)
        try:
            pull.all()
            self.offset = pull.offset
        finally:
            pull.close()

    def lose_old_files(self) -> None:
        """Merge all files, and remove those that only older snapshots have."""
        self.lake.flush_inlined()
        self.lake.merge_adjacent_files()
        self.lake.expire_snapshots(older_than=timedelta(0))
        assert self.lake.cleanup_old_files(older_than=timedelta(0)).paths


def live_before(place: Place) -> Life:
    life = Life(place)
    for batch in range(BEFORE):
        life.commit(batch)
    life.follow()
    return life


def live_on(life: Life) -> None:
    for batch in range(BEFORE, BEFORE + LATER):
        life.commit(batch)
    life.follow()
    life.lose_old_files()
    life.lake.close()


def check_restored(place: Place, life: Life, capsys: pytest.CaptureFixture[str]) -> None:
    """See that everybody notices, also when others have written on, and nobody wrote or read anything."""
    with Lake.open(place.database.url) as lake:
        entry = lake.ledger_entry("orders")
        assert entry is not None
        assert entry.batch_id == BEFORE - 1
        head = lake.snapshots()[-1].snapshot_id
        with pytest.raises(LedgerBehind):
            life.commit(BEFORE + LATER)
        with pytest.raises(OffsetMismatch):
            life.follow()
        for number in range(10):
            lake.append("orders", {"id": [1000 + number]})
        with pytest.raises(LedgerBehind):
            life.commit(BEFORE + LATER)
        with pytest.raises(OffsetMismatch):
            life.follow()
        assert lake.snapshots()[-1].snapshot_id == head + 10
        with pytest.raises(UnreadableFile):
            lake.table("orders").read()
        orphans = lake.delete_orphaned_files(cleanup_all=True, dry_run=True).paths
        assert orphans
    assert main(["doctor", "--catalog", place.database.url]) == 1
    assert "missing-file" in capsys.readouterr().out
    life.lake.close()


def test_dump_is_restored_by_the_commands_of_the_page(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    life = live_before(place)
    place.run_block('psql "$LAKE" -qX -v ON_ERROR_STOP=1 -f deploy/postgres/roles.sql')
    place.run_block('psql "$LAKE" -qX -v ON_ERROR_STOP=1 -f deploy/postgres/autovacuum.sql')
    for statement in SQL:
        place.ask(statement)
    place.run_block("pg_dump")
    live_on(life)

    place.run_block('psql "$ADMIN" -qX -c \'CREATE DATABASE')

    check_restored(place, life, capsys)


def test_point_in_time_is_restored_by_the_commands_of_the_page(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.run_block("pg_basebackup")
    life = live_before(place)
    [[now]] = place.ask("SELECT now()::text")
    place.target = str(now)
    live_on(life)
    place.ask("SELECT pg_switch_wal()")
    place.server.stop()

    place.run_block('mv "$PGDATA"')
    place.server.start()
    wait_until(lambda: place.ask("SELECT 1 WHERE NOT pg_is_in_recovery()"))

    check_restored(place, life, capsys)
