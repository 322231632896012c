"""Statements straight over PostgreSQL's wire protocol, by psycopg's `pq`: prepared once per connection, many at a time.

psycopg's cursors can do the same and more; for the statements of a small commit they take longer than the server does.

Behind a pooler each transaction may run on another connection to the server, which others use before and after us: what
was prepared on one is not there on the next. So nothing is prepared there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count
from secrets import token_hex
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import numpy as np
import psycopg
from psycopg import pq, sql
from psycopg.abc import Buffer, PQGen
from psycopg.adapt import Loader, Transformer
from psycopg.errors import DuplicatePreparedStatement, InvalidSqlStatementName, error_from_result
from psycopg.waiting import Ready, Wait
from sqlalchemy import Executable
from sqlalchemy.dialects.postgresql import psycopg as sqlalchemy_psycopg
from sqlalchemy.schema import ExecutableDDLElement

from ducklake_core.errors import InvalidInput

Rows: TypeAlias = list[Sequence[Any]]  # Any: a catalog row has values of many types
Command: TypeAlias = tuple[Executable | str, Sequence[Mapping[str, Any]]]  # run once for each row of parameters

_DIALECT = sqlalchemy_psycopg.dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call] # untyped there
MAX_PREPARED = 200  # each takes memory of the server; those of a commit to one table are ten
_TEXT, _BINARY = pq.Format.TEXT, pq.Format.BINARY
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # from which PostgreSQL counts microseconds
_ERROR, _ROWS, _SYNC = pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.PIPELINE_SYNC


@dataclass(frozen=True, slots=True)
class Query:
    """SQL with numbered parameters, their names in that order, and the values that it brings itself, such as a limit.

    Definitions (DDL) run once each and are not worth preparing.
    """

    sql: bytes
    names: tuple[str, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    is_worth_preparing: bool = True


class _Message(NamedTuple):
    """One run of a query: what `pq` takes, and the place of its command."""

    query: Query
    parameters: Sequence[bytes | None]
    formats: Sequence[int]
    command: int


class _UtcLoader(Loader):
    """Gives times in UTC, whatever the server's zone: in the hour that comes twice, times of two are never equal."""

    format = _BINARY

    def load(self, data: Buffer) -> datetime:
        microseconds = int.from_bytes(data, "big", signed=True)
        try:
            return _EPOCH + timedelta(microseconds=microseconds)
        except OverflowError:
            raise psycopg.DataError(f"the catalog has a time beyond the calendar: {microseconds} µs") from None


class Wire:
    """One connection to PostgreSQL.

    The names of what it prepares are random: behind a pooler no other client can have the same, and run our statement
    for its own. None is given twice: an exchange that failed may have prepared some of its own.
    """

    def __init__(self, driver: psycopg.Connection[Any], lock_timeout_seconds: float) -> None:
        self._driver = driver
        self._lock_timeout = f"lock_timeout = {max(1, round(1000 * lock_timeout_seconds))}"  # in ms; 0 would be none
        self._driver.adapters.register_loader("timestamptz", _UtcLoader)
        self._prepares = _is_server_itself(driver)
        self._prefix = f"ducklake_{token_hex(8)}_"
        self._numbers = count()
        self._names: dict[bytes, bytes] = {}  # of what the server has prepared, by its SQL
        self._made = 0
        if self._prepares:
            driver.execute(f"SET {self._lock_timeout}".encode())

    @property
    def settings(self) -> tuple[str, ...]:
        """What a transaction must set for itself: behind a pooler, its connection is another's before and after."""
        return () if self._prepares else (f"SET LOCAL {self._lock_timeout}",)

    def exchange(self, commands: Sequence[Command], *later: Callable[[], Sequence[Command]]) -> list[Rows]:
        """Run commands in one round trip and return the rows of each; raise the first error of the server.

        The first of `later` is called when they are on their way; what it returns is sent after them, and so on.
        """
        return [[row for result in found for row in self._rows(result)] for found in self._results(commands, *later)]

    def exchange_raw(self, commands: Sequence[Command]) -> list[list[bytes | None]]:
        """Run queries of at most one row each in one round trip; return its values in their binary form, or none."""
        results = [found for [found] in self._results(commands)]
        return [
            [result.get_value(0, index) for index in range(result.nfields)] if result.ntuples else []
            for result in results
        ]

    def exchange_both(
        self, commands: Sequence[Command], raw: range
    ) -> tuple[list[Rows], list[list[list[bytes | None]]]]:
        """Run commands in one round trip; return the rows of each, and those of some as cells in their binary form."""
        results = self._results(commands)
        told = [
            [] if i in raw else [row for one in found for row in self._rows(one)] for i, found in enumerate(results)
        ]
        return told, [[row for one in results[i] for row in _cells(one)] for i in raw]

    def _results(
        self, commands: Sequence[Command], *later: Callable[[], Sequence[Command]]
    ) -> list[list[pq.abc.PGresult]]:
        """Return the results of each command that have rows.

        A server that does not know what we have prepared is another one than before. It has not run that command, nor
        those after it, of which COMMIT is the last: all are sent again if they are the first of their transaction.
        """
        is_first = self._driver.pgconn.transaction_status == pq.TransactionStatus.IDLE
        if self._made > MAX_PREPARED and is_first:
            self._forget_prepared()
        sent = [*commands]
        try:
            return self._exchange_once(sent, later)
        except (InvalidSqlStatementName, DuplicatePreparedStatement) as error:
            self._prepares = False
            if not is_first:  # what came before is lost with the transaction
                raise psycopg.OperationalError(f"the server is not the one it was: {error}") from error
        self._driver.rollback()
        return self._exchange_once(sent, ())

    def _exchange_once(
        self, sent: list[Command], later: Sequence[Callable[[], Sequence[Command]]]
    ) -> list[list[pq.abc.PGresult]]:
        """Send commands, then the later ones, which are added to them, and return their results."""
        known = dict(self._names)
        owners = self._send(_messages(sent, 0))
        try:
            for find_more in later:
                more = find_more()
                owners += self._send(_messages(more, len(sent))) if more else ()
                sent += more
        finally:
            results = self._receive()
        found: list[list[pq.abc.PGresult]] = [[] for _ in sent]
        for owner, result in zip(owners, results, strict=True):
            if result.status == _ERROR:
                self._names = known
                raise self._error(result, sent[owner])
            if result.status == _ROWS:
                found[owner].append(result)
        return found

    def _error(self, result: pq.abc.PGresult, command: Command) -> psycopg.Error:
        """Return the server's error, with the statement, which has no values, as a note: it does not name it."""
        error = error_from_result(result, self._driver.info.encoding)
        error.add_note(_compile(command[0]).sql.decode())
        return error

    def _forget_prepared(self) -> None:
        """Forget ours only: if this is a pooler after all, others have theirs on the same connection."""
        self._names.clear()
        self._made = 0
        ours = "SELECT name FROM pg_catalog.pg_prepared_statements WHERE starts_with(name, %s)"
        names = self._driver.execute(ours, (self._prefix,)).fetchall()
        forget = [sql.SQL("DEALLOCATE {}").format(sql.Identifier(name)) for (name,) in names]
        if forget:
            self._driver.execute(sql.SQL("; ").join(forget))

    def _send(self, messages: Sequence[_Message]) -> list[int]:
        """Send messages; return the command that each of their answers will belong to."""
        pgconn = self._driver.pgconn
        owners: list[int] = []
        with self._all_or_closed():
            if pgconn.pipeline_status == pq.PipelineStatus.OFF:
                pgconn.enter_pipeline_mode()
            for message in messages:
                owners += [message.command] * self._send_one(pgconn, message)
            pgconn.flush()
        return owners

    @contextmanager
    def _all_or_closed(self) -> Iterator[None]:
        """Close the connection unless all was done: an interrupt, too, leaves one that nobody can use."""
        is_done = False
        try:
            yield
            is_done = True
        finally:
            if not is_done:
                self._driver.close()

    def _send_one(self, pgconn: pq.abc.PGconn, message: _Message) -> int:
        """Send one message; return how many answers it gets."""
        query, parameters, formats = message.query, message.parameters, message.formats
        if not (query.is_worth_preparing and self._prepares):
            pgconn.send_query_params(query.sql, parameters, None, formats, _BINARY)
            return 1
        name = self._names.get(query.sql)
        if name is not None:
            pgconn.send_query_prepared(name, parameters, formats, _BINARY)
            return 1
        name = self._names[query.sql] = f"{self._prefix}{next(self._numbers)}".encode()
        self._made += 1
        pgconn.send_prepare(name, query.sql)
        pgconn.send_query_prepared(name, parameters, formats, _BINARY)
        return 2

    def _receive(self) -> list[pq.abc.PGresult]:
        pgconn = self._driver.pgconn
        with self._all_or_closed():
            pgconn.pipeline_sync()
            results = self._driver.wait(_answers(pgconn))
            pgconn.exit_pipeline_mode()
        return results

    def _rows(self, result: pq.abc.PGresult) -> Rows:
        transformer = Transformer(self._driver)
        transformer.set_pgresult(result)
        return list(transformer.load_rows(0, result.ntuples, tuple))


def _cells(result: pq.abc.PGresult) -> Iterator[list[bytes | None]]:
    for row in range(result.ntuples):
        yield [result.get_value(row, column) for column in range(result.nfields)]


def _is_server_itself(driver: psycopg.Connection[Any]) -> bool:
    """Tell whether nothing stands between us and the server that could give each transaction another connection.

    The server gives the number of its process when we connect; a pooler does not know yet which one, and makes one up.
    """
    [[process]] = driver.execute("SELECT pg_catalog.pg_backend_pid()").fetchall()
    return bool(process == driver.pgconn.backend_pid)


def _answers(pgconn: pq.abc.PGconn) -> PQGen[list[pq.abc.PGresult]]:
    """Send what is left to send, then read the results up to the sync."""
    while pgconn.flush():
        ready = yield Wait.RW
        if ready & Ready.R:
            pgconn.consume_input()
    results: list[pq.abc.PGresult] = []
    while True:
        while pgconn.is_busy():
            yield Wait.R
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:  # the end of one command's results, and all there is when the connection is lost
            if pgconn.status != pq.ConnStatus.OK:
                raise psycopg.OperationalError("the connection to the server is lost")
        elif result.status == _SYNC:
            return results
        else:
            results.append(result)


def _messages(commands: Sequence[Command], first: int) -> list[_Message]:
    """Return the messages of all commands, which are counted from `first`."""
    found = []
    for number, (executable, rows) in enumerate(commands, first):
        query = _compile(executable)
        for row in rows:
            values = [row[name] if name in row else query.constants[name] for name in query.names]
            formats = [_BINARY if type(value) is bytes else _TEXT for value in values]
            found.append(_Message(query, [_encode(value) for value in values], formats, number))
    return found


@lru_cache(maxsize=1024)
def _compile(executable: Executable | str) -> Query:
    """Compile a statement, once per object: `statements.py` and `queries.py` return the same one each time."""
    if isinstance(executable, str):
        return Query(executable.encode())
    compiled = executable.compile(dialect=_DIALECT)  # type: ignore[attr-defined] # Executable lacks it in the stubs
    if isinstance(executable, ExecutableDDLElement):
        return Query(str(compiled).encode(), is_worth_preparing=False)
    constants = {name: bind.effective_value for bind, name in compiled.bind_names.items() if not bind.required}
    return Query(str(compiled).encode(), tuple(compiled.positiontup or ()), constants)


# -------------------------------------------------------------------------------------- parameters


def _encode(value: object) -> bytes | None:
    """Return a parameter in the text format, which the statement's cast parses; bytes are in the binary one already."""
    encode = _ENCODERS.get(type(value)) or _inherited_encoder(type(value))
    return encode(value)


def _inherited_encoder(type_: type) -> Callable[[Any], bytes | None]:  # Any: see _ENCODERS
    found = next((_ENCODERS[parent] for parent in type_.__mro__ if parent in _ENCODERS), None)
    if found is None:
        raise TypeError(f"the catalog has no parameters of type {type_.__name__}")
    return found


def _encode_text(value: str) -> bytes:
    if "\x00" in value:  # libpq would end the parameter there without a word
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    try:
        return value.encode()
    except UnicodeEncodeError as error:  # half a character: a lone surrogate
        raise InvalidInput("PostgreSQL takes no text that is no Unicode") from error


_ENCODERS: Mapping[type, Callable[[Any], bytes | None]] = {  # Any: one type per entry
    type(None): lambda _: None,
    bool: lambda value: b"t" if value else b"f",
    int: lambda value: b"%d" % value,
    np.int64: lambda value: b"%d" % value,
    float: lambda value: repr(value).encode(),
    str: _encode_text,
    datetime: lambda value: value.isoformat().encode(),
    UUID: lambda value: str(value).encode(),
    bytes: lambda value: value,
}
