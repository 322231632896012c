"""A session: one transaction on the catalog database, which runs several statements in one round trip where it can.

Runs on the driver, and on executors that read inlined rows. It commits only by `write_and_commit()`, else it rolls
back. It begins with a look at the lake's format: another may migrate the lake at any time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import psycopg
from psycopg.abc import Buffer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus
from sqlalchemy import Connection, Executable
from sqlalchemy.exc import OperationalError

from ducklake_core import faults
from ducklake_core.catalog import queries
from ducklake_core.catalog.postgres.wire import Command, Wire
from ducklake_core.errors import CommitOutcomeUnknown, ContentionError, InvalidInput
from ducklake_core.spec.utf8 import with_replacements
from ducklake_core.spec.versions import Feature, FormatVersion
from ducklake_core.text_repair import warn_of_invalid_text

if TYPE_CHECKING:
    from ducklake_core.catalog.database import Database

Row: TypeAlias = Sequence[Any]  # Any: a catalog row has values of many types
# Of a binary COPY: a header and a trailer in one message, the trailer alone. A row is longer.
_TRAILER_BYTES, _NOTHING_YET, _END = 2, 0, -1  # what libpq says instead of a message's size
Parameters: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]

_COMMIT: Command = ("COMMIT", ({},))
FIRST_WITH_ROW_ARRAYS = 140_000
_NO_UTF8 = re.compile(r"Could not decode to UTF-8 column '(.*?)'")  # what the driver of SQLite says


@dataclass(frozen=True, slots=True)
class Statement:
    """A SQLAlchemy statement and its parameters; a list of parameters runs it once for each."""

    executable: Executable
    parameters: Parameters = field(default_factory=dict)


class Session:
    """One transaction. Statements given to `run` at once cost one round trip where the database can do that."""

    def __init__(self, database: Database, connection: Connection, begin: str, *, checks_version: bool) -> None:
        self.database = database
        self.version, self.tables = database.version, database.tables
        self.dialect = database.dialect
        self._connection = connection
        self._begin: str | None = begin
        self._only_reads = begin == self.dialect.begin_read
        self._checks_version = checks_version
        self._open = False

    @property
    def driver(self) -> Any:  # Any: sqlite3 or psycopg connection
        return self._connection.connection.driver_connection

    @property
    def takes_row_arrays(self) -> bool:
        """Tell whether rows of a table can be an array parameter.

        The first server that does not insist on the number of their type, which no client knows, is PostgreSQL 14.
        """
        return self.dialect.has_pipeline and self.driver.pgconn.server_version >= FIRST_WITH_ROW_ARRAYS

    def run(self, statements: Sequence[Statement], meanwhile: Callable[[], object] = lambda: None) -> list[list[Row]]:
        """Run the statements in order and return the rows of each; the first call begins the transaction.

        `meanwhile` is called when they are on their way, before the answers are waited for.
        """
        if self.dialect.has_pipeline:
            return self._run_pipelined(statements, meanwhile)
        meanwhile()
        return self._run_each(statements)

    def run_and_end(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements that only read, and end the transaction in the same round trip."""
        if not self.dialect.has_pipeline:
            return self._run_each(statements)
        results = self._exchange([*map(_command, statements), _COMMIT])
        self._open = False
        return results[:-1]

    def query(self, executable: Executable, **parameters: object) -> list[Row]:
        return self.run([Statement(executable, parameters)])[0]

    def run_raw(self, statements: Sequence[Statement]) -> list[list[bytes | None]]:
        """Run queries of one row each and return its values in PostgreSQL's binary format."""
        self.begin()
        return self._wire.exchange_raw([*map(_command, statements)])

    @contextmanager
    def copy_out(self, statement: Statement) -> Iterator[Iterable[Buffer]]:
        """Give the messages of a COPY of a query's rows in PostgreSQL's binary format, as they come; one per row."""
        compiled = statement.executable.compile(dialect=self._connection.dialect)  # type: ignore[attr-defined] # Executable lacks it in the stubs
        parameters = compiled.construct_params(cast("Mapping[str, Any]", statement.parameters))
        bound = psycopg.ClientCursor(self.driver).mogrify(str(compiled), parameters)  # COPY takes no parameters
        self.begin()
        with self.driver.cursor().copy(f"COPY ({bound}) TO STDOUT (FORMAT BINARY)") as copy:
            yield _messages(copy, self.driver.pgconn)

    def write_and_commit(
        self,
        statements: Sequence[Statement],
        then: Callable[[], Sequence[Statement]] = tuple,
        guard: Statement | None = None,
    ) -> None:
        """Run the statements and those of `then`, and commit, in one round trip; a lost connection: outcome unknown.

        `then` is called when the first ones are on their way. `guard` is run before them, and fails where the lake is
        not what was guessed, its format included. Without one, a transaction that has not begun begins before.
        """
        if guard is None:
            self.begin()
        try:
            if self.dialect.has_pipeline:
                self._write_pipelined(statements if guard is None else [guard, *statements], then)
            else:
                self._run_each([*statements, *then()])
                faults.at("in_commit")
                self.driver.execute("COMMIT")
        except Exception as error:  # only a lost connection is renamed
            if isinstance(error, psycopg.Error) and (self.driver.closed or _leaves_doubt(error)):
                raise CommitOutcomeUnknown(
                    f"connection to catalog '{self.database.url.shown}' was lost at COMMIT: the snapshot may exist"
                ) from error
            raise
        self._open = False

    def begin(self) -> None:
        """Begin the transaction now, for those who use the driver directly."""
        if self._begin is None:
            return
        if self.dialect.has_pipeline:
            self._exchange([])
            return
        begin, self._begin, self._open = self._begin, None, True  # an interrupt may come when the lock is ours
        self.driver.execute(begin)
        if self._checks_version:
            self.check_version()

    def check_version(self) -> None:
        """Raise UnsupportedFormatVersion when the lake has a format that cannot be read, or written if we write."""
        self._note_version(self.query(queries.version(self.tables).select))

    def _note_version(self, rows: Sequence[Row]) -> None:
        found = FormatVersion.parse(next((row.value for row in queries.version(self.tables).named(rows)), None))
        found.require(Feature.READ)
        if not self._only_reads:
            found.require(Feature.WRITE)
        if found != self.version:
            self.database.version = found  # the next attempt asks for its tables
            raise ContentionError(f"the lake has format '{found.text}' now, '{self.version.text}' was expected")

    def end(self) -> None:
        """Roll back what was not committed."""
        if self._open and not self.dialect.has_pipeline:
            if self.driver.in_transaction:
                self.driver.execute("ROLLBACK")
        elif self._open and not self.driver.closed:
            self._roll_back_postgres()
        self._open = False

    def _roll_back_postgres(self) -> None:
        if self._only_reads and self.driver.info.transaction_status == TransactionStatus.INTRANS:
            self._wire.exchange([_COMMIT])
        else:
            self.driver.rollback()

    def abandon(self, error: BaseException) -> None:
        """Roll back after an error; a connection that cannot do even that is thrown away."""
        try:
            self.end()
        except Exception:  # noqa: BLE001 # the first error is the one to be seen
            self._connection.invalidate()
            return  # to ask it for its driver would connect again
        if self.dialect.has_pipeline and (self.driver is None or self.driver.closed):
            self._connection.invalidate(error)

    def _run_each(self, statements: Sequence[Statement]) -> list[list[Row]]:
        self.begin()
        results: list[list[Row]] = []
        for statement in statements:
            if not isinstance(statement.parameters, Mapping) and not statement.parameters:
                results.append([])
                continue
            try:
                results.append(self._run_one(statement))
            except OverflowError as error:  # the driver's: an integer of more than 64 bits
                raise InvalidInput(f"a number is too large for catalog '{self.database.url.shown}'") from error
            except UnicodeEncodeError as error:  # half a character: a lone surrogate
                raise InvalidInput(f"catalog '{self.database.url.shown}' takes no text that is no Unicode") from error
            except OperationalError as error:
                found = _NO_UTF8.match(str(error.orig))
                if found is None:
                    raise
                warn_of_invalid_text(self.database.url.shown, found[1])
                results.append(self._run_leniently(statement))
        return results

    def _run_one(self, statement: Statement) -> list[Row]:
        result = self._connection.execute(statement.executable, statement.parameters)
        return list(result.fetchall()) if result.returns_rows else []

    def _run_leniently(self, statement: Statement) -> list[Row]:
        """Run a query of SQLite again whose answer has a text that is no UTF-8, and read replacement characters."""
        self.driver.text_factory = with_replacements
        try:
            return self._run_one(statement)
        finally:
            self.driver.text_factory = str

    def _run_pipelined(self, statements: Sequence[Statement], meanwhile: Callable[[], object]) -> list[list[Row]]:
        def work() -> Sequence[Command]:
            meanwhile()
            return ()

        return self._exchange([*map(_command, statements)], work)

    def _write_pipelined(self, statements: Sequence[Statement], then: Callable[[], Sequence[Statement]]) -> None:
        commands = [*self._beginning(), *map(_command, statements)]
        self._wire.exchange(commands, lambda: [*map(_command, then()), _COMMIT])

    def _exchange(self, commands: Sequence[Command], then: Callable[[], Sequence[Command]] = tuple) -> list[list[Row]]:
        """Run commands in one round trip, after BEGIN and the question for the format where nothing has begun."""
        opening = self._beginning()
        asks = bool(opening) and self._checks_version
        if asks:
            opening.append((queries.version(self.tables).select, ({},)))
        results = self._wire.exchange([*opening, *commands], then)
        if asks:
            self._note_version(results[len(opening) - 1])
        return results[len(opening) :]

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


def _leaves_doubt(error: psycopg.Error) -> bool:
    """Tell whether a server or a pooler that still answers does not know what became of a COMMIT."""
    return (error.sqlstate or "").startswith("08") or error.sqlstate == "40003"


def _command(statement: Statement) -> Command:
    parameters = statement.parameters
    return statement.executable, ([parameters] if isinstance(parameters, Mapping) else parameters)
