"""Some rows of a table, as an executor reads them. No Spark.

A slice pickles and says all that its reader needs; where all of it is files, that needs no driver of a database.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from ducklake_core.errors import DuckLakeError, UnreadableFile
from ducklake_core.files.storage import Storage
from ducklake_core.read.parts import FileRows, Part, read_part
from ducklake_core.read.request import RowRequest


@dataclass(frozen=True, slots=True)
class Slice:
    """Some rows of a table at a snapshot. Made by the driver, read by an executor."""

    request: RowRequest
    storage: Storage
    parts: tuple[Part, ...] = field(repr=False)  # files may have keys

    @property
    def paths(self) -> list[str]:
        """The data files that it reads."""
        return [part.file.path for part in self.parts if isinstance(part, FileRows)]


def read_slice(one: Slice) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice; what goes wrong names the table, the snapshot and the file."""
    try:
        for part in one.parts:
            yield from read_part(one.storage, part, one.request)
    except DuckLakeError as error:
        where = f"cannot read table '{one.request.table}' at snapshot {one.request.snapshot}"
        message = f"{where}: {error.message}{_hint(error, one.storage)}"
        raise type(error)(message, **error.facts) from error


def _hint(error: DuckLakeError, storage: Storage) -> str:
    """Say what helps when a file is not there: maintenance removes files of expired snapshots."""
    path = error.facts.get("path")
    if not isinstance(error, UnreadableFile) or path is None or storage.exists(path):
        return ""
    return "; the file is gone: if its snapshot has expired meanwhile, begin the read again"
