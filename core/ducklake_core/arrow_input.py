"""Takes what people have and makes an Arrow table of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ducklake_core.errors import InvalidInput


def to_table(data: Any) -> pa.Table:  # Any: Arrow data, a dict of columns, rows as dicts, a data frame
    """Return an Arrow table of Arrow data, a mapping of columns, a list of row dicts or a data frame."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    try:
        if isinstance(data, list):
            return pa.Table.from_pylist(data)
        return pa.table(data)
    except OverflowError as error:  # Arrow takes integers for int64, whatever the table has
        kind = type(data).__name__
        raise InvalidInput(
            f"{kind} has an integer beyond 64 bits with a sign: give an Arrow table with types"
        ) from error
    except (TypeError, UnicodeError, pa.ArrowException) as error:
        raise InvalidInput(f"cannot make Arrow data of {type(data).__name__}: {error}") from error
