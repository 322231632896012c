"""Who takes part in the benchmark of commits. Each contender appends a table of readings and says how long it took.

What a contender may have ready beforehand (encoded bytes, rows as Python values) it makes before its clock starts.
"""

from __future__ import annotations

import pickle
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeAlias

import psycopg
import pyarrow as pa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateTable

from benchmarks.readings import SCHEMA
from ducklake_core import Lake
from ducklake_core.catalog.dbapi import values as dbapi_values
from ducklake_core.catalog.dbapi.sqlite_rules import SQLITE_RULES
from ducklake_core.catalog.inlined_tables import inlined_table
from ducklake_core.catalog.postgres import encode
from ducklake_core.catalog.postgres.rules import POSTGRES_RULES
from ducklake_core.model import Column, Epoch
from ducklake_core.spec.text import to_text
from ducklake_core.spec.types import build_columns
from tests.fixtures.postgres import PostgresDatabase, PostgresServer

Contender: TypeAlias = Callable[[pa.Table], float]

COLUMNS = build_columns(SCHEMA)
TABLE = "sensors"
HIGH_ROW_LIMIT = 1_000_000
_BARE_TABLE = "bare_sensors"
_COPY = f"COPY {_BARE_TABLE} FROM STDIN (FORMAT BINARY)".encode()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a new lake goes, for us and for DuckDB. `database` None: a SQLite file."""

    url: str
    attach: str
    data_path: str
    database: PostgresDatabase | None = None


class Places:
    """Makes places for lakes on one kind of catalog."""

    def __init__(self, directory: Path, server: PostgresServer | None) -> None:
        self.directory = directory
        self.server = server
        self._count = 0

    def make(self) -> Place:
        self._count += 1
        data_path = f"{self.directory}/data{self._count}/"
        if self.server is not None:
            database = self.server.create_database()
            return Place(database.url, database.attach, data_path, database)
        path = self.directory / f"lake{self._count}.sqlite"
        return Place(f"sqlite:///{path}", f"ducklake:sqlite:{path}", data_path)


def make_lake(place: Place) -> Lake:
    """Create a lake with the table of readings, which keeps all of them in the catalog."""
    lake = Lake.create(place.url, place.data_path)
    lake.create_table(TABLE, SCHEMA)
    lake.set_option("data_inlining_row_limit", HIGH_ROW_LIMIT)
    return lake


@contextmanager
def our_append(place: Place) -> Iterator[Contender]:
    """`Lake.append`, on an open lake."""
    with make_lake(place) as lake:
        yield lambda readings: _seconds(lambda: lake.append(TABLE, readings))


@contextmanager
def our_epoch(place: Place) -> Iterator[Contender]:
    """`Lake.commit_epoch`: a fresh look at the head, then the same append with a row of the ledger."""
    with make_lake(place) as lake:
        batches = count()

        def commit(readings: pa.Table) -> float:
            epoch = Epoch("benchmark", next(batches), "query", "run")
            return _seconds(lambda: lake.commit_epoch(epoch, lambda tx: tx.append(TABLE, readings)))

        yield commit


@contextmanager
def extension_insert(place: Place) -> Iterator[Contender]:
    """DuckDB's INSERT from an Arrow table in one warm session, in a process that times itself."""
    make_lake(place).close()
    command = [sys.executable, "-m", "benchmarks.extension_process"]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        requests, answers = process.stdin, process.stdout
        pickle.dump((place.attach, place.data_path), requests)

        def insert(readings: pa.Table) -> float:
            pickle.dump(_ipc(readings), requests)
            requests.flush()
            seconds: float = pickle.load(answers)  # noqa: S301 # our own child wrote it
            return seconds

        yield insert
        requests.close()


@contextmanager
def encoded_copy(place: Place) -> Iterator[Contender]:
    """The floor on PostgreSQL: COPY of bytes that are ready, and COMMIT. No snapshot, no statistics."""
    with _bare_postgres(place) as connection:

        def copy(readings: pa.Table) -> float:
            rows = readings.num_rows
            system = [encode.constant_cells(value, rows) for value in (1, 1, None)]
            cells = [encode.encode_column(readings.column(i), c) for i, c in enumerate(COLUMNS)]
            encoded = encode.copy_buffer([*system, *cells])
            return _seconds(lambda: _copy_bytes(connection, encoded))

        yield copy


@contextmanager
def row_copy(place: Place) -> Iterator[Contender]:
    """What psycopg offers by itself: binary COPY of Python values, row by row, and COMMIT."""
    types = ["int8", "int8", "int8", *(encode.postgres_type(c).name.lower() for c in COLUMNS)]
    with _bare_postgres(place) as connection:

        def copy(readings: pa.Table) -> float:
            values = [_python_values(readings.column(i), types[3 + i], c) for i, c in enumerate(COLUMNS)]
            rows = [(1, 1, None, *row) for row in zip(*values, strict=True)]
            return _seconds(lambda: _copy_rows(connection, types, rows))

        yield copy


@contextmanager
def encoded_insert(place: Place) -> Iterator[Contender]:
    """The floor on SQLite: executemany of rows that are ready, and COMMIT."""
    table = inlined_table(_BARE_TABLE, COLUMNS, SQLITE_RULES, None)
    marks = ", ".join("?" * len(table.columns))
    with closing(sqlite3.connect(place.url.removeprefix("sqlite:///"))) as connection:
        connection.execute(str(CreateTable(table).compile(dialect=sqlite.dialect())))

        def insert(readings: pa.Table) -> float:
            rows = [(1, 1, None, *row) for row in dbapi_values.encode_rows(readings, COLUMNS, SQLITE_RULES)]
            return _seconds(lambda: _insert_rows(connection, f"INSERT INTO {_BARE_TABLE} VALUES ({marks})", rows))

        yield insert


def _seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _ipc(readings: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, readings.schema) as writer:
        writer.write_table(readings)
    return bytes(sink.getvalue())


@contextmanager
def _bare_postgres(place: Place) -> Iterator[psycopg.Connection]:
    assert place.database is not None
    table = inlined_table(_BARE_TABLE, COLUMNS, POSTGRES_RULES, None)
    with psycopg.connect(place.database.conninfo) as connection:
        connection.execute(str(CreateTable(table).compile(dialect=postgresql.dialect())).encode())  # type: ignore[no-untyped-call] # untyped there
        connection.commit()
        yield connection


def _copy_bytes(connection: psycopg.Connection, encoded: bytes) -> None:
    with connection.cursor().copy(_COPY) as copy:
        copy.write(encoded)
    connection.commit()


def _copy_rows(connection: psycopg.Connection, types: list[str], rows: list[tuple[object, ...]]) -> None:
    with connection.cursor().copy(_COPY) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)
    connection.commit()


def _insert_rows(connection: sqlite3.Connection, statement: str, rows: list[tuple[object, ...]]) -> None:
    connection.executemany(statement, rows)
    connection.commit()


def _python_values(values: pa.ChunkedArray, type_: str, column: Column) -> list[object]:
    array = values.combine_chunks()
    if type_ == "bytea":
        return list(array.cast(pa.binary()).to_pylist())
    if type_ == "varchar":
        return list(to_text(array, column).to_pylist())
    return list(array.to_pylist())
