"""The exception tree of DuckLake core. Every error keeps its facts as attributes and survives pickling.

Where it runs: everywhere; errors travel from executor to driver.

    DuckLakeError
    ├── TransientError              may succeed when tried again
    │   ├── CatalogUnavailable      the catalog database cannot be reached or is locked, longer than catalog_timeout
    │   └── ContentionError         another commit took our snapshot id, more often than the policy allows
    ├── TerminalError               trying again cannot help
    │   ├── InvalidInput            an argument, option, filter or name is wrong
    │   │   └── UntoldValue         an event leaves out a value, and there is no row that has it
    │   ├── CatalogError            what is at the URL is not a lake we can use
    │   │   ├── NoLakeFound
    │   │   ├── LakeExists
    │   │   ├── UnsupportedFormatVersion
    │   │   ├── DataPathMismatch
    │   │   ├── CatalogForbidden    the database does not let us in, or not do this
    │   │   ├── CatalogLimitExceeded    more than the database takes in one row, table or statement
    │   │   └── CorruptCatalog      a catalog row breaks the format
    │   │       └── CatalogTableMissing     a table that the catalog has registered is not there
    │   ├── ObjectNotFound          no such schema, table, column or snapshot
    │   ├── ObjectExists
    │   ├── SchemaMismatch          the data does not fit the table
    │   ├── NotNullViolation
    │   ├── UnsupportedType         a type or value has no lossless home
    │   ├── UnreadableFile          a data or delete file cannot be read
    │   ├── UnwritableFile          a data or delete file cannot be written
    │   ├── CommitConflict          another commit makes ours invalid
    │   ├── LedgerError             the epoch cannot be committed
    │   │   ├── EpochOutOfOrder     the ledger already holds a later batch, or the checkpoint is another one
    │   │   ├── StreamFenced        another run has taken over the stream
    │   │   └── LedgerBehind        the ledger lost epochs that were acknowledged
    │   └── FeedError               a change feed cannot go on
    │       ├── SnapshotsExpired    changes that it needs are gone
    │       ├── OffsetMismatch      the offset is of another table, another lake or another release
    │       ├── SchemaChanged       the columns are no longer those the query began with
    │       └── RowsChanged         rows were updated or deleted, and the reader takes only inserts
    └── CommitOutcomeUnknown        the connection died at COMMIT: it may or may not have landed
"""

from __future__ import annotations

from typing import Any


class DuckLakeError(Exception):
    """The root of all errors; keyword facts become attributes and survive pickling."""

    def __init__(self, message: str, **facts: Any) -> None:  # Any: a fact may be of any type that pickles
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __getattr__(self, name: str) -> Any:  # Any: see __init__
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:  # Any: fixed by the pickle protocol
        return _rebuild, (type(self), self.message, self.facts)


def _rebuild(kind: type[DuckLakeError], message: str, facts: dict[str, Any]) -> DuckLakeError:
    return kind(message, **facts)


class TransientError(DuckLakeError):
    """May succeed when tried again."""


class CatalogUnavailable(TransientError):
    """The catalog database cannot be reached, or is locked by somebody else."""


class ContentionError(TransientError):
    """Other commits took our snapshot id until the retry policy gave up; nothing was written."""


class TerminalError(DuckLakeError):
    """Trying again cannot help."""


class InvalidInput(TerminalError):
    """An argument, option, filter or name is wrong."""


class UntoldValue(InvalidInput):
    """Events of an upsert leave values out that their rows should keep, and the table has no such rows.

    `keys` shows some of these, `columns` are those left out, `rows` the places of all such events in their batch.
    """


class CatalogError(TerminalError):
    """What is at the URL is not a lake that can be used."""


class NoLakeFound(CatalogError):
    """There is no lake at the URL."""


class LakeExists(CatalogError):
    """There is a lake at the URL already."""


class UnsupportedFormatVersion(CatalogError):
    """The catalog's format is older or newer than what this release reads and writes."""


class DataPathMismatch(CatalogError):
    """The lake keeps its files elsewhere than the caller said."""


class CatalogForbidden(CatalogError):
    """The database does not let its user in, or not do what was asked for."""


class CatalogLimitExceeded(CatalogError):
    """A row, a table or a statement is larger than what the catalog database takes."""


class CorruptCatalog(CatalogError):
    """A catalog row breaks the format."""


class CatalogTableMissing(CorruptCatalog):
    """A table of the catalog is not there: another process has just dropped it, or the catalog is damaged."""


class ObjectNotFound(TerminalError):
    """There is no such schema, table, column, file or snapshot."""


class ObjectExists(TerminalError):
    """A schema, table or column of that name exists already."""


class SchemaMismatch(TerminalError):
    """The data does not fit the table's columns."""


class NotNullViolation(TerminalError):
    """A column that forbids nulls got one."""


class UnsupportedType(TerminalError):
    """A type, or a value of it, cannot be stored or read without loss."""


class UnreadableFile(TerminalError):
    """A data file or delete file is missing or cannot be read."""


class UnwritableFile(TerminalError):
    """A data file or delete file cannot be written: its storage is full, forbids it or is not there."""


class CommitConflict(TerminalError):
    """Another commit makes ours invalid; the facts name its snapshot.

    `rows_moved`: all that it did is move rows elsewhere, as a flush, a merge or a rewrite does, so the same changes can
    be made again from the new head.
    """

    def __init__(self, message: str, *, rows_moved: bool = False, **facts: Any) -> None:  # Any: see DuckLakeError
        super().__init__(message, **facts)
        self.rows_moved = rows_moved

    def __reduce__(self) -> tuple[Any, ...]:  # Any: fixed by the pickle protocol
        return _rebuild, (type(self), self.message, {**self.facts, "rows_moved": self.rows_moved})


class LedgerError(TerminalError):
    """An epoch cannot be committed because of what the ledger holds."""


class EpochOutOfOrder(LedgerError):
    """The ledger already holds a later batch of this stream, or one of another query."""


class StreamFenced(LedgerError):
    """Another run of the stream is ahead of us: this one must stop."""


class LedgerBehind(LedgerError):
    """The ledger misses epochs that were acknowledged: the catalog was restored from a backup."""


class FeedError(TerminalError):
    """A change feed cannot go on."""


class SnapshotsExpired(FeedError):
    """Snapshots have expired whose changes are asked for; the facts name the range and what is lost."""


class OffsetMismatch(FeedError):
    """The offset is of another table, of a lake that was set back, or of a release that wrote other offsets."""


class SchemaChanged(FeedError):
    """The table's columns are no longer those that the query began with."""


class RowsChanged(FeedError):
    """Rows were updated or deleted, and the reader takes only inserts."""


class CommitOutcomeUnknown(DuckLakeError):
    """The connection died at COMMIT: the snapshot may or may not exist. Never delete files on this error."""
