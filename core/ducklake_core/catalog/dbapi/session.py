"""A session through Python's database interface (PEP 249): one statement after another, by SQLAlchemy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy.exc import DBAPIError

from ducklake_core import faults
from ducklake_core.catalog import queries
from ducklake_core.catalog.session import Later, Row, Session, Statement
from ducklake_core.errors import InvalidInput


class DbapiSession(Session):
    """One transaction, begun and ended by statements of ours: the driver itself must be in autocommit mode."""

    @property
    def driver(self) -> Any:  # Any: a connection of whatever driver it is
        return self._connection.connection.driver_connection

    def begin(self) -> None:
        if self._begin is None:
            return
        begin, self._begin, self._open = self._begin, None, True  # an interrupt may come when the lock is ours
        self._execute(begin)
        if self._checks_version:
            answer = self._execute(queries.version_sql(self.tables, self.database.engine.dialect))
            if answer != self._accepted:
                self._note_version(answer)

    def run(
        self, statements: Sequence[Statement], while_waiting: Callable[[], object] = lambda: None
    ) -> list[list[Row]]:
        while_waiting()
        self.begin()
        return [self._run_one(statement) for statement in statements]

    def run_and_end(self, statements: Sequence[Statement]) -> list[list[Row]]:
        return self.run(statements)

    def write_and_commit(
        self,
        statements: Sequence[Statement],
        later: Sequence[Later] = (),
        guard: Statement | None = None,
        while_waiting: Callable[[], object] = lambda: None,  # noqa: ARG002 # the database runs in here: nobody waits
    ) -> None:
        self.begin()
        self.run([*([] if guard is None else [guard]), *statements, *(one for find in later for one in find())])
        faults.at("in_commit")
        try:
            self._execute("COMMIT")
        except self.dialect.errors.raised as error:
            if self.dialect.errors.leaves_doubt(error):
                raise self._outcome_unknown() from error
            raise
        self._open = False

    def end(self) -> None:
        # Some drivers tell whether there is one still: some errors of SQLite have rolled it back.
        if self._open and getattr(self.driver, "in_transaction", True):
            self._execute("ROLLBACK")
        self._open = False

    def insert_many(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        """Insert rows straight through the driver, which takes their values by position."""
        self.begin()
        cursor = self.driver.cursor()
        cursor.executemany(sql, rows)
        cursor.close()

    def _execute(self, sql: str) -> list[Row]:
        """Run a text straight through the driver: for a short question SQLAlchemy takes longer than the database."""
        cursor = self.driver.cursor()
        cursor.execute(sql)
        rows = [] if cursor.description is None else cursor.fetchall()
        cursor.close()
        return list(rows)

    def _run_one(self, statement: Statement) -> list[Row]:
        if not isinstance(statement.parameters, Mapping) and not statement.parameters:
            return []  # for an empty list of parameters it is not run at all
        try:
            return self._rows_of(statement)
        except OverflowError as error:  # the driver's: an integer of more than 64 bits
            raise InvalidInput(f"a number is too large for catalog '{self.database.url.shown}'") from error
        except UnicodeEncodeError as error:  # half a character: a lone surrogate
            raise InvalidInput(f"catalog '{self.database.url.shown}' takes no text that is no Unicode") from error
        except DBAPIError as error:
            return self._run_again(statement, error)

    def _run_again(self, statement: Statement, error: DBAPIError) -> list[Row]:  # noqa: ARG002 # for those that can
        """Run a statement in another way that may succeed where it failed; raise the error where there is none."""
        raise error

    def _rows_of(self, statement: Statement) -> list[Row]:
        result = self._connection.execute(statement.executable, statement.parameters)
        return list(result.fetchall()) if result.returns_rows else []
