"""A session on PostgreSQL: several statements travel in one round trip, and inlined rows by COPY."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, TypeAlias, cast

import psycopg
from psycopg.abc import Buffer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus
from sqlalchemy import Compiled, Dialect, Executable

from ducklake_core.catalog import queries
from ducklake_core.catalog.postgres.errors import leaves_doubt
from ducklake_core.catalog.postgres.wire import Command, Wire
from ducklake_core.catalog.session import Later, Row, Session, Statement

# Of a binary COPY: a header and a trailer in one message, the trailer alone. A row is longer.
_TRAILER_BYTES, _NOTHING_YET, _END = 2, 0, -1  # what libpq says instead of a message's size
_COMMIT: Command = ("COMMIT", ({},))

Driver: TypeAlias = "psycopg.Connection[Any]"  # Any: its rows are tuples of whatever a query has


class PostgresSession(Session):
    """One transaction. It begins with its first statements, in their round trip."""

    @property
    def driver(self) -> Driver:
        return cast("Driver", self._connection.connection.driver_connection)

    @property
    def server_version(self) -> int:
        return self.driver.pgconn.server_version

    def begin(self) -> None:
        if self._begin is not None:
            self._exchange([])

    def run(
        self, statements: Sequence[Statement], while_waiting: Callable[[], object] = lambda: None
    ) -> list[list[Row]]:
        return self._exchange([*map(_command, statements)], partial(_work, while_waiting))

    def run_and_end(self, statements: Sequence[Statement]) -> list[list[Row]]:
        results = self._exchange([*map(_command, statements), _COMMIT])
        self._open = False
        return results[:-1]

    def run_with_cells(
        self, statements: Sequence[Statement], raw: Sequence[Statement]
    ) -> tuple[list[list[Row]], list[list[list[bytes | None]]]]:
        """Run statements and queries of few rows, whose values stay in PostgreSQL's binary format, and end.

        All of it only reads, and is one round trip.
        """
        opening = self._opening()
        commands = [*opening, *map(_command, statements), *map(_command, raw), _COMMIT]
        results, cells = self._wire.exchange_both(commands, range(len(opening) + len(statements), len(commands) - 1))
        self._note_opening(opening, results)
        self._open = False
        return results[len(opening) : len(opening) + len(statements)], cells

    def run_raw(self, statements: Sequence[Statement]) -> list[list[bytes | None]]:
        """Run queries of at most one row each; return its values in PostgreSQL's binary format, or none."""
        self.begin()
        return self._wire.exchange_raw([*map(_command, statements)])

    @contextmanager
    def copy_out(self, statement: Statement) -> Iterator[Iterable[Buffer]]:
        """Give the messages of a COPY of a query's rows in PostgreSQL's binary format, as they come; one per row."""
        compiled = _compiled(statement.executable, self._connection.dialect)
        parameters = compiled.construct_params(cast("Mapping[str, Any]", statement.parameters))
        bound = psycopg.ClientCursor(self.driver).mogrify(str(compiled), parameters)  # COPY takes no parameters
        self.begin()
        with self.driver.cursor().copy(f"COPY ({bound}) TO STDOUT (FORMAT BINARY)".encode()) as copy:
            yield _messages(copy, self.driver.pgconn)

    def copy_in(self, sql: bytes, data: Buffer) -> None:
        """Send rows in PostgreSQL's binary format by a COPY."""
        self.begin()
        with self.driver.cursor().copy(sql) as copy:
            copy.write(data)

    def write_and_commit(
        self,
        statements: Sequence[Statement],
        later: Sequence[Later] = (),
        guard: Statement | None = None,
        while_waiting: Callable[[], object] = lambda: None,
    ) -> None:
        if guard is None:
            self.begin()
        try:
            self._write_pipelined(statements if guard is None else [guard, *statements], later, while_waiting)
        except psycopg.Error as error:
            if self.driver.closed or leaves_doubt(error):
                raise self._outcome_unknown() from error
            raise
        self._open = False

    def _write_pipelined(
        self, statements: Sequence[Statement], later: Sequence[Later], while_waiting: Callable[[], object]
    ) -> None:
        *between, last = later or (tuple,)
        self._wire.exchange(
            [*self._beginning(), *map(_command, statements)],
            *(partial(_commands_of, find) for find in between),
            lambda: [*_commands_of(last), _COMMIT],
            partial(_work, while_waiting),
        )

    def end(self) -> None:
        if self._open and not self.driver.closed:
            self._roll_back()
        self._open = False

    def _roll_back(self) -> None:
        if self._only_reads and self.driver.info.transaction_status == TransactionStatus.INTRANS:
            self._wire.exchange([_COMMIT])
        else:
            self.driver.rollback()

    def _is_lost(self) -> bool:
        return self._connection.connection.driver_connection is None or self.driver.closed

    def _exchange(self, commands: Sequence[Command], *later: Callable[[], Sequence[Command]]) -> list[list[Row]]:
        """Run commands in one round trip, after BEGIN and the question for the format where nothing has begun."""
        opening = self._opening()
        results = self._wire.exchange([*opening, *commands], *later)
        self._note_opening(opening, results)
        return results[len(opening) :]

    def _opening(self) -> list[Command]:
        opening = self._beginning()
        if opening and self._checks_version:
            opening.append((queries.version(self.tables).select, ({},)))
        return opening

    def _note_opening(self, opening: Sequence[Command], results: Sequence[list[Row]]) -> None:
        if opening and self._checks_version and results[len(opening) - 1] != self._accepted:
            self._note_version(results[len(opening) - 1])

    def _beginning(self) -> list[Command]:
        """Return what begins the transaction where it has not begun."""
        begin, self._begin, self._open = self._begin, None, True
        return [] if begin is None else [(command, ({},)) for command in (begin, *self._wire.settings)]

    @property
    def _wire(self) -> Wire:
        """What this connection has prepared stays prepared as long as it lives."""
        wire: Wire | None = self._connection.info.get("wire")
        if wire is None:
            wire = self._connection.info["wire"] = Wire(self.driver, self.database.lock_timeout_seconds)
        return wire


@lru_cache(maxsize=512)
def _compiled(executable: Executable, dialect: Dialect) -> Compiled:
    """Return a statement as text: most are the same object each time."""
    return executable.compile(dialect=dialect)  # type: ignore[attr-defined,no-any-return] # Executable lacks it in the stubs


def on_postgres(session: Session) -> PostgresSession:
    """Return a session as the one it is: the dialect's record has given it to its own store of inlined rows."""
    if not isinstance(session, PostgresSession):
        raise TypeError(f"{type(session).__name__} is no session on PostgreSQL")
    return session


def _messages(copy: psycopg.Copy, pgconn: psycopg.pq.abc.PGconn) -> Iterator[Buffer]:
    """Yield the messages of a binary COPY, without its trailer, straight from libpq as long as there are any.

    psycopg would take longer for each than to decode it. But it waits as it should: libpq's own wait stops all threads.
    """
    while True:
        found: tuple[int, Buffer] = pgconn.get_copy_data(1)
        count, message = found
        if count == _NOTHING_YET:
            message = copy.read()
            count = len(message) or _END
        if count <= _END:
            break
        if count > _TRAILER_BYTES:
            yield message
    results = list(iter(pgconn.get_result, None))  # all of them, or the connection stays busy
    failed = next((result for result in results if result.status == ExecStatus.FATAL_ERROR), None)
    if failed is not None:
        raise error_from_result(failed, copy.connection.info.encoding)


def _commands_of(find: Later) -> list[Command]:
    return [*map(_command, find())]


def _work(act: Callable[[], object]) -> Sequence[Command]:
    """Do something that nothing is to be sent for."""
    act()
    return ()


def _command(statement: Statement) -> Command:
    parameters = statement.parameters
    return statement.executable, ([parameters] if isinstance(parameters, Mapping) else parameters)
