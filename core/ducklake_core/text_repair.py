"""Texts of a lake that are no UTF-8, read with replacement characters instead of not at all. Runs everywhere.

No writer of ours stores such a text, but earlier releases did, and others may. One of them must not keep everybody from
all other rows for ever: so each invalid sequence is read as U+FFFD, and a flush writes what was read.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TypeVar

import pyarrow as pa

from ducklake_core.log_lines import log_event
from ducklake_core.spec.utf8 import find_invalid_text, mended, with_replacements

log = logging.getLogger(__name__)

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


@lru_cache(maxsize=4096)  # who reads a table every second would be told every second
def warn_of_invalid_text(place: str, column: str) -> None:
    """Say once for each column where texts were replaced."""
    log_event(log, logging.WARNING, "invalid_text_replaced", place=place, column=column)
