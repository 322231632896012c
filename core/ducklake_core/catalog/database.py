"""The catalog database as core sees it: opens sessions, and waits for a database that is away.

Runs on the driver, and on executors that read inlined rows. Pickles as its URL; nothing connects before first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from ducklake_core.catalog.connecting import connect
from ducklake_core.catalog.dialect import CatalogDialect
from ducklake_core.catalog.dialects import dialect_named
from ducklake_core.catalog.driver_errors import Fault, driver_error, named
from ducklake_core.catalog.session import Row, Session
from ducklake_core.catalog.urls import CatalogUrl
from ducklake_core.errors import (
    CatalogError,
    CatalogForbidden,
    CatalogUnavailable,
    CommitOutcomeUnknown,
    ContentionError,
    DuckLakeError,
    UnsupportedFormatVersion,
)
from ducklake_core.retries import Patience, retry_while_unavailable
from ducklake_core.spec.tables import catalog_tables
from ducklake_core.spec.versions import CURRENT, FormatVersion

Result = TypeVar("Result")

LOCK_SECONDS = 5.0  # for so long the database itself waits for a lock of others; then we do, and say so


class Database:
    """Opens sessions on one catalog database; what they raise is of `ducklake_core.errors`.

    `ask` and `write_alone` wait for a database that is away, as `patience` says; `read` and `write` do not.
    """

    def __init__(
        self,
        url: CatalogUrl,
        lock_timeout_seconds: float = LOCK_SECONDS,
        patience: Patience = Patience(),  # noqa: B008 # frozen
        version: FormatVersion = CURRENT,  # until a session finds another
    ) -> None:
        self.url = url
        self.lock_timeout_seconds = min(lock_timeout_seconds, patience.timeout_seconds)
        self.patience = patience
        self.dialect: CatalogDialect = dialect_named(url.url.get_backend_name())
        self.use(version)
        # What a session may raise: some statements go through SQLAlchemy, some straight to the driver.
        self._errors = (SQLAlchemyError, self.dialect.errors.raised)
        self._was_let_in = False
        self.delete_tables: set[str] = set()  # of inlined deletes, which were there when last looked for
        self._idle: list[Connection] = []  # the last one used: the pool takes as long as a statement to hand it out

    def __reduce__(self) -> tuple[Any, ...]:  # Any: fixed by the pickle protocol
        patience = Patience(self.patience.timeout_seconds)
        return Database, (self.url, self.lock_timeout_seconds, patience, self.version)

    def use(self, version: FormatVersion) -> None:
        """Take the lake for one of this format, and its tables for those that the format has."""
        self.version = version
        self.tables = catalog_tables(self.url.metadata_schema, self.dialect.values, version)
        self.accepted_answers: dict[bool, Sequence[Row]] = {}  # see `Session`; by whether they only read

    @cached_property
    def engine(self) -> Engine:
        """Transactions are begun and ended by our own statements: not by the driver, and not by the pool."""
        return self.dialect.open_engine(self.url.url, self.lock_timeout_seconds, self.patience.timeout_seconds)

    def close(self) -> None:
        """Close idle connections; the next session opens a new one."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        engine: Engine | None = self.__dict__.pop("engine", None)
        if engine is not None:
            engine.dispose()

    def ask(self, work: Callable[[Session], Result], *, checks_version: bool = True) -> Result:
        """Run work that only reads, in one transaction; again, when the database is away or the connection is lost."""

        def once() -> Result:
            with self.read(checks_version=checks_version) as session:
                return work(session)

        return self.wait_for(once)

    def write_alone(self, act: str, work: Callable[[Session], Result], *, checks_version: bool = True) -> Result:
        """Run work that writes and commits, without a snapshot: a transaction of its own.

        It is run again when the database is away, when others write the same, and when nobody knows whether its COMMIT
        has landed: it must be right to do it twice. `act` tells it to people, as in "record consumer 'c' in".
        """
        doubt: CommitOutcomeUnknown | None = None

        def once() -> Result:
            nonlocal doubt
            try:
                with self.write(act, checks_version=checks_version) as session:
                    return work(session)
            except CommitOutcomeUnknown as error:
                doubt = error
                raise CatalogUnavailable(error.message) from error

        try:
            return self.wait_for(once)
        except DuckLakeError as error:
            if doubt is None or not isinstance(driver_error(error), self._errors):
                raise  # what we found ourselves is certain
            raise CommitOutcomeUnknown(f"{doubt.message}, and nobody can look: {error}") from error

    def wait_for(self, act: Callable[[], Result]) -> Result:
        """Do something that reads, again while the database is away; see `retry_while_unavailable`."""
        return retry_while_unavailable(act, self.patience, self.url.shown)

    def read(self, act: str = "read", *, checks_version: bool = True) -> AbstractContextManager[Session]:
        """Open a transaction that only reads."""
        return self._session(self.dialect.begin_read, act, checks_version=checks_version)

    def write(self, act: str = "write to", *, checks_version: bool = True) -> AbstractContextManager[Session]:
        """Open a transaction that writes."""
        return self._session(self.dialect.begin_write, act, checks_version=checks_version)

    @contextmanager
    def _session(self, begin: str, act: str, *, checks_version: bool) -> Iterator[Session]:
        connection = self._connect()
        was_idle = bool(connection.info.get("was_idle"))
        try:
            with self._transaction(connection, begin, checks_version=checks_version) as session:
                yield session
        except self._errors as error:
            if checks_version and self.dialect.errors.is_other_layout(error):
                self._refuse_other_format(error)
            found = self._unless_standby(self._named(error, act), error)
            if was_idle and isinstance(found, CatalogUnavailable):
                found.facts["was_idle"] = True
            raise found from error

    @contextmanager
    def _transaction(self, connection: Connection, begin: str, *, checks_version: bool) -> Iterator[Session]:
        """Give a session, and the connection back; after an error, an interrupt included, it is not used again."""
        session = self.dialect.session(self, connection, begin, checks_version=checks_version)
        is_whole = False
        try:
            yield session
            session.end()
            is_whole = True
        finally:
            if not is_whole:
                self._throw_away(session, connection)
        connection.info["was_idle"] = True
        if self.dialect.is_alive is not None and not self._idle:
            self._idle.append(connection)  # for the next session, where that is right for the database
        else:
            connection.close()

    def _throw_away(self, session: Session, connection: Connection) -> None:
        try:
            session.abandon()
        finally:
            connection.close()

    def _named(self, error: BaseException, act: str, *, when_connecting: bool = False) -> DuckLakeError:
        meaning = self.dialect.errors.meaning(driver_error(error), when_connecting=when_connecting)
        return named(error, meaning, act, self.url.shown)

    def _unless_standby(self, found: DuckLakeError, error: BaseException) -> DuckLakeError:
        """Return the error; of a write that a standby refused, one that is waited for: it may become the primary."""
        meaning = self.dialect.errors.meaning(driver_error(error))
        if meaning.fault is not Fault.READ_ONLY or self.dialect.is_standby is None:
            return found
        try:
            with self.read(checks_version=False) as session:
                [[is_standby]] = session.query(text(self.dialect.is_standby))
        except (CatalogUnavailable, CatalogError):
            return found  # the first error is the one to be seen
        return CatalogUnavailable(f"{found.message}: it is a standby, or was", **found.facts) if is_standby else found

    def _refuse_other_format(self, error: BaseException) -> None:
        """Raise UnsupportedFormatVersion, or ContentionError, if that is why the database does not know what was asked.

        The lake was migrated after the transaction had begun, or in the same round trip.
        """
        try:
            with self.read(checks_version=False) as session:
                session.check_version()
        except (UnsupportedFormatVersion, ContentionError) as found:
            raise found from error
        except (CatalogUnavailable, CatalogError):
            return  # the first error is the one to be seen

    def _connect(self) -> Connection:
        """Return a connection, one that is there already if it lives: it costs nothing to see that it does not."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect_anew()
            if self.dialect.is_alive is None or self.dialect.is_alive(connection):
                return connection
            connection.invalidate()
            connection.close()

    def _connect_anew(self) -> Connection:
        self._use_new_password()
        try:
            if self.dialect.is_file:  # it is opened at once
                return self.engine.connect()
            connection = connect(self.engine, self.patience, self.url.shown)
        except self._errors as error:
            raise self._refusal(self._named(error, "connect to", when_connecting=True)) from error
        self._was_let_in = True
        return connection

    def _use_new_password(self) -> None:
        """Read the file again that the address names for its password: somebody may have changed it since."""
        found = self.url.reread()
        if found != self.url:
            self.url = found
            engine: Engine | None = self.__dict__.pop("engine", None)
            if engine is not None:
                engine.dispose()  # connections that are in use stay

    def _refusal(self, found: DuckLakeError) -> DuckLakeError:
        """Return the error of a refused connection. Who was let in before waits: a password may be half changed."""
        if self._was_let_in and isinstance(found, CatalogForbidden):
            return CatalogUnavailable(found.message, **found.facts)
        return found
