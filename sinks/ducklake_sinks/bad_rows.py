"""Rows that a table cannot hold, found one by one and kept with the reason. Pure; runs on driver and executors."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ducklake_core.errors import InvalidInput, NotNullViolation, SchemaMismatch
from ducklake_core.model import Column
from ducklake_core.plan.conform import conform
from ducklake_core.spec.utf8 import as_hex, find_invalid_text, mended

DEAD_LETTER_SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("batch_id", pa.int64()),
        ("table_name", pa.string()),
        ("reason", pa.string()),
        ("row", pa.string()),
        ("quarantined_at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """What every dead letter of one batch says. `batch_id` None: of rows without a number."""

    stream: str | None
    batch_id: int | None
    at: datetime


BadRow: TypeAlias = tuple[dict[str, Any], str]  # the row and the reason. Any: values of a row


def fitting_rows(
    data: pa.Table, columns: Sequence[Column], table_name: str, *, fill_missing: bool, quarantines: bool
) -> tuple[pa.Table, list[BadRow]]:
    """Return the rows that fit the table, as it wants them, and the others; without `quarantines` one of those raises.

    What fits no row at all, such as a column of another kind, is no bad row: it raises, as `conform` does.
    """
    go = partial(conform, columns=columns, table_name=table_name, fill_missing=fill_missing)
    if not quarantines:
        return go(data), []
    good, bad, waiting = [go(data.slice(0, 0))], list[BadRow](), [data]
    while waiting:
        part = waiting.pop()
        try:
            good.append(go(part))
        except InvalidInput:
            rest, found = without_invalid_text(part)
            if not found:
                raise
            bad += found
            waiting.append(rest)
        except (SchemaMismatch, NotNullViolation) as error:
            if part.num_rows == 1:
                bad.append((plain_rows(part)[0], str(error)))
            else:
                middle = part.num_rows // 2
                waiting += [part.slice(middle), part.slice(0, middle)]
    return pa.concat_tables(good), bad


def without_invalid_text(data: pa.Table, column: str | None = None) -> tuple[pa.Table, list[BadRow]]:
    """Return the rows whose texts are all UTF-8, and the others; `column`: the only one that is looked at."""
    looked_at = data if column is None else data.select([column])
    found = [(looked_at.schema.names[index], flags) for index, flags in find_invalid_text(looked_at)]
    if not found:
        return data, []
    is_bad = np.logical_or.reduce([flags for _, flags in found])
    names = [[name for name, flags in found if flags[row]] for row in np.flatnonzero(is_bad)]
    rows = plain_rows(data.filter(pa.array(is_bad)))
    return data.filter(pa.array(~is_bad)), [(row, _no_utf8(*some)) for row, some in zip(rows, names, strict=True)]


def _no_utf8(*columns: str) -> str:
    shown = ", ".join(f"'{column}'" for column in columns)
    return f"a text that is no UTF-8 in {shown}: the row shows its bytes as hexadecimal digits after 0x"


def bad_row_error(reason: str) -> SchemaMismatch:
    """Return the error for a bad row that nothing is to be done about."""
    return SchemaMismatch(f"{reason}; on_bad_row='quarantine' keeps such rows in a dead-letter table")


def dead_letters(batch: BatchInfo, table_name: str | None, bad: Sequence[BadRow]) -> pa.Table:
    """Return the rows of the dead-letter table for some bad rows."""
    rows = [
        {
            "stream": batch.stream,
            "batch_id": batch.batch_id,
            "table_name": table_name,
            "reason": reason,
            "row": json.dumps(row, allow_nan=False, ensure_ascii=False),
            "quarantined_at": batch.at,
        }
        for row, reason in bad
    ]
    return pa.Table.from_pylist(rows, DEAD_LETTER_SCHEMA)


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as values that JSON has; what Python cannot hold, such as a year beyond 9999, as its Arrow text.

    A text that is no UTF-8 becomes its bytes as hexadecimal digits after `0x`; a blob is in base 64.
    """
    columns = [
        [_plain_cell(cell) for chunk in column.chunks for cell in mended(chunk, as_hex)]
        for column in table.itercolumns()
    ]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain_cell(cell: pa.Scalar) -> Any:  # Any: what JSON has
    try:
        return _plain(cell.as_py())
    except (OverflowError, ValueError):
        whole = pa.array([cell])
        for type_ in (pa.string(), pa.int64(), pa.binary()):
            try:
                return _plain(whole.cast(type_)[0].as_py())
            except (pa.ArrowException, OverflowError, ValueError):
                continue
        return f"a value of type {cell.type} that cannot be shown"


def _plain(value: Any) -> Any:  # Any: a Python value, and what JSON has
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, (str, int)) else str(value)
