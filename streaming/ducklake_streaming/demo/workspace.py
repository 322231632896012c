"""Where the demonstration happens: a directory that is ours alone, and the lake's catalog in it."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ducklake_streaming.demo.local_postgres import (
    PostgresError,
    create_database,
    make_cluster,
    make_directory,
    running,
)

MARKER = "made-by-ducklake-stream-demo"
DATABASE = "lake"
POSTGRES, KAFKA = "postgres", "kafka"  # the folders, or links, of the demonstration's own servers
SOCKET_PORT = 5432  # only names the socket: the server listens on no network


class DemoError(Exception):
    """The demonstration cannot be given here; the message says what helps."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A directory with a lake. `start_again`: the command that starts its PostgreSQL, once it is stopped."""

    directory: Path
    catalog: str
    attach: str
    extension: str
    start_again: str | None = None

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    @property
    def spark_log(self) -> Path:
        return self.directory / "spark.log"

    def statements(self, query: str) -> list[str]:
        """Return what opens the lake in DuckDB, and a query."""
        attach = self.attach.replace("'", "''")
        return [
            f"INSTALL ducklake; INSTALL {self.extension};",
            f"ATTACH '{attach}' AS lake;",
            query,
        ]


@contextmanager
def sqlite_workspace(directory: Path) -> Iterator[Workspace]:
    """Give a new workspace whose catalog is one file."""
    with _own_directory(directory) as own:
        path = own / "catalog.sqlite"
        yield Workspace(own, f"sqlite:///{path}", f"ducklake:sqlite:{path}", "sqlite")


@contextmanager
def postgres_workspace(directory: Path) -> Iterator[Workspace]:
    """Give a new workspace whose catalog is in a PostgreSQL that runs as long as this block."""
    with _own_directory(directory) as own:
        try:
            home = server_directory(own, POSTGRES)
            cluster = make_cluster(home, str(home), SOCKET_PORT)
            with running(cluster):
                create_database(cluster, DATABASE)
                conninfo = cluster.conninfo(DATABASE)
                yield Workspace(
                    own, f"postgres:{conninfo}", f"ducklake:postgres:{conninfo}", "postgres", cluster.shell_command
                )
        except PostgresError as error:
            raise DemoError(str(error)) from error


WORKSPACES = {"sqlite": sqlite_workspace, "postgres": postgres_workspace}


@contextmanager
def _own_directory(directory: Path) -> Iterator[Path]:
    """Make the directory anew and keep it from others; an earlier one is replaced only if it has our mark."""
    own = directory.absolute()
    marker = own / MARKER
    if own.exists() and not marker.is_file() and (not own.is_dir() or any(own.iterdir())):
        raise DemoError(
            f"cannot make a demo lake in {str(directory)!r}: something else is there; name another with --directory"
        )
    own.mkdir(parents=True, exist_ok=True)
    with marker.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(
                f"a demo runs in {str(directory)!r} already: let it end, or name another with --directory"
            ) from None
        _refuse_running_postgres(own)
        _refuse_running_kafka(own)
        _empty(own, keep=marker)
        yield own


def server_directory(directory: Path, name: str) -> Path:
    """Make the folder of a server: in the demonstration's, or elsewhere with a link there."""
    wanted = directory / name
    home = make_directory(wanted)
    if home != wanted:
        wanted.symlink_to(home)
    return home


def _refuse_running_kafka(directory: Path) -> None:
    """See that nobody has started the broker of an earlier demonstration again: it holds a lock then."""
    try:
        with (directory / KAFKA / "data" / ".lock").open("r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return
    except BlockingIOError:
        raise DemoError(
            f"the Kafka broker of an earlier demo runs in {str(directory)!r}: stop it (Ctrl-C where it runs), "
            "or name another directory with --directory"
        ) from None


def _refuse_running_postgres(directory: Path) -> None:
    """See that nobody has started the PostgreSQL of an earlier demonstration again."""
    file = directory / POSTGRES / "data" / "postmaster.pid"
    if not file.exists():
        return
    process_id = int(file.read_text().split()[0])
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return  # it ended by force
    raise DemoError(
        f"the PostgreSQL of an earlier demo runs in {str(directory)!r}, as process {process_id}: stop it with "
        f"{shlex.join(['kill', '-INT', str(process_id)])!r}, or name another directory with --directory"
    )


def _empty(directory: Path, keep: Path) -> None:
    for path in directory.iterdir():
        if path == keep:
            continue
        if path.is_symlink():
            if path.name in (POSTGRES, KAFKA) and path.is_dir():
                shutil.rmtree(path.resolve())  # the server's own may be elsewhere; what others link to is theirs
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
