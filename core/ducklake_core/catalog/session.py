"""A session: one transaction on the catalog database. How each database runs it is in the database's own folder.

Runs on the driver, and on executors that read inlined rows. It commits only by `write_and_commit()`, else it rolls
back. It begins with a look at the lake's format: another may migrate the lake at any time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import Connection, Executable
from sqlalchemy.exc import SQLAlchemyError

from ducklake_core.catalog import queries
from ducklake_core.errors import CommitOutcomeUnknown, ContentionError
from ducklake_core.spec.versions import Feature, FormatVersion

if TYPE_CHECKING:
    from ducklake_core.catalog.database import Database

Row: TypeAlias = Sequence[Any]  # Any: a catalog row has values of many types
Parameters: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Statement:
    """A SQLAlchemy statement and its parameters; a list of parameters runs it once for each."""

    executable: Executable
    parameters: Parameters = field(default_factory=dict)


Later: TypeAlias = Callable[[], Sequence[Statement]]  # finds statements when it is their turn


class Session(ABC):
    """One transaction. Statements given to `run` at once cost one round trip where the database can do that."""

    def __init__(self, database: Database, connection: Connection, begin: str, *, checks_version: bool) -> None:
        self.database = database
        self.version, self.tables = database.version, database.tables
        self.dialect = database.dialect
        self._connection = connection
        self._begin: str | None = begin
        self._only_reads = begin == self.dialect.begin_read
        self._accepted = database.accepted_answers.get(self._only_reads)
        self._checks_version = checks_version
        self._open = False

    @abstractmethod
    def begin(self) -> None:
        """Begin the transaction now, where it has not begun, with the question for the format if that is wanted."""

    @abstractmethod
    def run(
        self, statements: Sequence[Statement], while_waiting: Callable[[], object] = lambda: None
    ) -> list[list[Row]]:
        """Run the statements in order and return the rows of each; the first call begins the transaction.

        `while_waiting` is called when they are on their way, before the answers are waited for.
        """

    def query(self, executable: Executable, **parameters: object) -> list[Row]:
        return self.run([Statement(executable, parameters)])[0]

    @abstractmethod
    def run_and_end(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements that only read, and end the transaction in the same round trip where that can be done."""

    @abstractmethod
    def write_and_commit(
        self,
        statements: Sequence[Statement],
        later: Sequence[Later] = (),
        guard: Statement | None = None,
        while_waiting: Callable[[], object] = lambda: None,
    ) -> None:
        """Run the statements and those that `later` finds, and commit; a connection lost at COMMIT: outcome unknown.

        All in one round trip where the database can do that: there each of `later` is called when what comes before is
        on its way, and `while_waiting` when all is, COMMIT included, so that it must not fail. `guard` is run before
        them, and fails where the lake is not what was assumed, its format included. Without one, a transaction that has
        not begun begins before.
        """

    @abstractmethod
    def end(self) -> None:
        """Roll back what was not committed."""

    def abandon(self) -> None:
        """Roll back after an error; a connection that cannot do even that is thrown away."""
        try:
            self.end()
        except (SQLAlchemyError, self.dialect.errors.raised):  # the first error is the one to be seen
            self._connection.invalidate()
            return  # to ask it for its driver would connect again
        if self._is_lost():
            self._connection.invalidate()

    def check_version(self) -> None:
        """Raise UnsupportedFormatVersion when the lake has a format that cannot be read, or written if we write."""
        self._note_version(self.query(queries.version(self.tables).select))

    def _note_version(self, rows: Sequence[Row]) -> None:
        """Check what the lake says of its format; not needed for what is `_accepted`: good before, for the same use."""
        found = FormatVersion.parse(next((row.value for row in queries.version(self.tables).named(rows)), None))
        found.require(Feature.READ)
        if not self._only_reads:
            found.require(Feature.WRITE)
        if found != self.version:
            self.database.use(found)  # from the next attempt on
            raise ContentionError(f"the lake has format '{found.text}' now, '{self.version.text}' was expected")
        self.database.accepted_answers[self._only_reads] = rows

    def _is_lost(self) -> bool:
        """Tell whether the connection is of no use any more."""
        return False

    def _outcome_unknown(self) -> CommitOutcomeUnknown:
        return CommitOutcomeUnknown(
            f"connection to catalog '{self.database.url.shown}' was lost at COMMIT: the snapshot may exist"
        )
