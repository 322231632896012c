"""What core finds in or leaves at storage, as events that go to the log alone: no recorder is known there. No Spark."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ducklake_core.observe import Event


@dataclass(frozen=True, slots=True)
class FileNotRemoved(Event):
    """A file that nobody needs could not be removed: it stays in storage as an orphan, and the data is right.

    To do: `ducklake-stream maintain orphans` finds and removes it later.
    """

    line = "file_not_removed"
    level = logging.WARNING
    path: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class StorageRetried(Event):
    """An object store was busy or away, and is asked again after a pause. Nothing is lost: the batch waits.

    To do: nothing for a few of them. If they go on, look at the store; if it throttles (`SLOW_DOWN`), write fewer and
    larger files: see [keep data on S3](object-storage.md#when-the-store-is-busy-or-away).
    """

    line = "storage_retried"
    level = logging.WARNING
    path: str
    attempt: int
    pause_seconds: float
    error: BaseException


@dataclass(frozen=True, slots=True)
class FileNotClosed(Event):
    """A file of a flush that failed could not be closed; the flush's own error says why it failed.

    To do: read that error; the rows stay in the catalog, and the next flush tries again.
    """

    line = "file_not_closed"
    level = logging.WARNING
    path: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class CatalogOnNetwork(Event):
    """The SQLite file of a catalog is on a file system of another machine, where two writers may destroy it.

    It is said once for each file.

    To do: move the file to a local disk, or the catalog to PostgreSQL: see [SQLite](postgres.md#sqlite-instead).
    """

    line = "catalog_on_network"
    level = logging.WARNING
    path: str
    file_system: str


@dataclass(frozen=True, slots=True)
class InvalidTextReplaced(Event):
    """A column of a file or table has texts that are no UTF-8; they are read with replacement characters.

    It is said once for each place and column.

    To do: write those rows anew, if the text matters: see [bad records](bad-records.md#text-that-is-not-utf-8).
    """

    line = "invalid_text_replaced"
    level = logging.WARNING
    place: str
    column: str


@dataclass(frozen=True, slots=True)
class PartitionRepeats(Event):
    """A table is partitioned by `day`, `month` or `hour` alone, so that rows of different years share a partition.

    It is said once for each table and key.

    To do: partition as `instead` says: see [partition by date](schema-changes.md#partition-by-date).
    """

    line = "partition_repeats"
    level = logging.WARNING
    table: str
    expression: str
    missing: str
    reason: str
    instead: str
