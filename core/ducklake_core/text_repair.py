"""Texts of a lake that are no UTF-8, read with replacement characters instead of not at all. Runs everywhere.

No writer of ours stores such a text, but earlier releases did, and others may. One of them must not keep everybody from
all other rows for ever: so each invalid sequence is read as U+FFFD, and a flush writes what was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

import pyarrow as pa

from ducklake_core.file_events import InvalidTextReplaced
from ducklake_core.observe import LOG_RECORDER
from ducklake_core.spec.utf8 import find_invalid_text, mended, with_replacements

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def with_valid_text(rows: Rows, place: str) -> Rows:
    """Return rows with replacement characters where a text is no UTF-8; `place` (a file, a table) is for the warning.

    The rows of nearly every lake are returned as they are.
    """
    for index, _ in find_invalid_text(rows):
        array = rows.column(index)
        if isinstance(array, pa.ChunkedArray):
            chunks = [mended(chunk, with_replacements) for chunk in array.chunks]
            array = pa.chunked_array(chunks, type=array.type)
        else:
            array = mended(array, with_replacements)
        rows = rows.set_column(index, rows.schema.field(index), array)
        warn_of_invalid_text(place, rows.schema.names[index])
    return rows


@contextmanager
def hear_of_invalid_text() -> Iterator[set[tuple[str, str]]]:
    """Gather (place, column) of texts that are replaced meanwhile, by any thread."""
    heard: set[tuple[str, str]] = set()
    _listeners.append(heard)
    try:
        yield heard
    finally:
        _listeners.remove(heard)


_listeners: list[set[tuple[str, str]]] = []


def warn_of_invalid_text(place: str, column: str) -> None:
    """Say once for each column where texts were replaced."""
    for heard in _listeners:
        heard.add((place, column))
    log_once(place, column)


@lru_cache(maxsize=4096)  # who reads a table every second would be told every second
def log_once(place: str, column: str) -> None:
    LOG_RECORDER.record(InvalidTextReplaced(place, column))
