"""Rows that a table cannot hold, found one by one and kept with the reason. Pure; runs on driver and executors."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ducklake_core.errors import InvalidInput, NotNullViolation, SchemaMismatch
from ducklake_core.model import Column
from ducklake_core.plan.conform import conform
from ducklake_core.spec.utf8 import as_hex, find_invalid_text, mended
from ducklake_sinks.dead_letters import RECORD_COLUMN, BadRow

BAD_ROW_ERRORS = (InvalidInput, SchemaMismatch, NotNullViolation)  # what a row that a table cannot hold raises


def fitting_rows(
    data: pa.Table, columns: Sequence[Column], table_name: str, *, fill_missing: bool, quarantines: bool
) -> tuple[pa.Table, list[BadRow]]:
    """Return the rows that fit the table, as it wants them, and the others; without `quarantines` one of those raises.

    What fits no row at all, such as a column of another kind, is no bad row: it raises, as `conform` does.
    """
    go = partial(conform, columns=columns, table_name=table_name, fill_missing=fill_missing)
    if not quarantines:
        return go(without_records(data)), []
    return divided(data, lambda part: go(without_records(part)))


def divided(data: pa.Table, check: Callable[[pa.Table], pa.Table]) -> tuple[pa.Table, list[BadRow]]:
    """Return what a check makes of the rows that it takes, and the others one by one with its reason."""
    good, bad, waiting = [check(data.slice(0, 0))], list[BadRow](), [data]
    while waiting:
        part = waiting.pop()
        try:
            good.append(check(part))
        except InvalidInput:
            rest, found = without_invalid_text(part)
            if not found:
                raise
            bad += found
            waiting.append(rest)
        except (SchemaMismatch, NotNullViolation) as error:
            if part.num_rows == 1:
                bad += bad_rows(part, [str(error)])
            else:
                middle = part.num_rows // 2
                waiting += [part.slice(middle), part.slice(0, middle)]
    return pa.concat_tables(good), bad


def without_invalid_text(data: pa.Table, column: str | None = None) -> tuple[pa.Table, list[BadRow]]:
    """Return the rows whose texts are all UTF-8, and the others; `column`: the only one that is looked at."""
    looked_at = without_records(data) if column is None else data.select([column])
    found = [(looked_at.schema.names[index], flags) for index, flags in find_invalid_text(looked_at)]
    if not found:
        return data, []
    is_bad = np.logical_or.reduce([flags for _, flags in found])
    names = [[name for name, flags in found if flags[row]] for row in np.flatnonzero(is_bad)]
    return data.filter(pa.array(~is_bad)), bad_rows(data.filter(pa.array(is_bad)), [_no_utf8(*some) for some in names])


def _no_utf8(*columns: str) -> str:
    shown = ", ".join(f"'{column}'" for column in columns)
    return f"a text that is no UTF-8 in {shown}: the row shows its bytes as hexadecimal digits after 0x"


def bad_rows(data: pa.Table, reasons: Sequence[str]) -> list[BadRow]:
    """Return rows with the reason of each, and with their records where the data has them."""
    has_records = RECORD_COLUMN in data.column_names
    records = data.column(RECORD_COLUMN) if has_records else [None] * data.num_rows
    rows = plain_rows(without_records(data))
    return [BadRow(*one) for one in zip(rows, reasons, records, strict=True)]


def without_records(data: pa.Table) -> pa.Table:
    """Return the rows without the column that only says what each was made from."""
    return data.drop_columns([RECORD_COLUMN]) if RECORD_COLUMN in data.column_names else data


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
