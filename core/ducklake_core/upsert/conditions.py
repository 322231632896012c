"""Which events a condition is about: a boolean column, or a filter such as `op = 'd'`. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ducklake_core.read.rows import matches
from ducklake_core.spec.types import build_columns


def rows_where(data: pa.Table, condition: str | None) -> np.ndarray:
    """Return which rows fulfil a condition over their columns, as a mask; None is fulfilled by none."""
    found = np.zeros(data.num_rows, bool)
    if condition is not None and data.num_rows:
        from ducklake_core.plan.filter_sql import parse_filter  # noqa: PLC0415 # its parser takes long to import

        known = pa.schema([field for field in data.schema if not pa.types.is_null(field.type)])
        found[matches(data, parse_filter(condition, tuple(build_columns(known))))] = True
    return found
