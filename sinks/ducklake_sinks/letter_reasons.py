"""Why dead letters are kept, counted: also of those that executors have put into files. Runs on the driver."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from ducklake_core.errors import UnreadableFile
from ducklake_core.files.storage import Storage
from ducklake_sinks.part import Part

ReasonsByTable: TypeAlias = Mapping[str | None, Counter[str]]  # the table that letters were meant for
_LETTERS_AT_ONCE = 100_000  # nearly each may have a reason of its own
_COLUMNS = ["table_name", "reason"]


def count_reasons(part: Part, storage: Storage) -> Iterator[ReasonsByTable]:
    """Yield how many letters of a part have which reason, some letters at a time.

    Files have been committed: one that cannot be read, or is gone, is passed over.
    """
    if part.rows is not None:
        yield _by_table(part.rows)
    for file in part.files:
        try:
            with storage.open_input(part.directory + file.path) as source:
                for letters in pq.ParquetFile(source).iter_batches(_LETTERS_AT_ONCE, columns=_COLUMNS):
                    yield _by_table(letters)
        except (UnreadableFile, OSError, pa.ArrowException):
            continue


def _by_table(letters: pa.Table | pa.RecordBatch) -> ReasonsByTable:
    found: dict[str | None, Counter[str]] = defaultdict(Counter)
    tables, reasons = (letters.column(name).to_pylist() for name in _COLUMNS)
    for table, reason in zip(tables, reasons, strict=True):
        found[table][reason] += 1
    return found
