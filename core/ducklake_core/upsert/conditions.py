"""Which events a condition is about: a boolean column, or a filter such as `op = 'd'`. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ducklake_core.errors import UnsupportedType
from ducklake_core.model import Column
from ducklake_core.plan.filter_arrow import matches
from ducklake_core.spec.types import build_columns


def rows_where(data: pa.Table, condition: str | None) -> np.ndarray:
    """Return which rows fulfil a condition over their columns, as a mask; None is fulfilled by none."""
    found = np.zeros(data.num_rows, bool)
    if condition is not None and data.num_rows:
        from ducklake_core.plan.filter_sql import parse_filter  # noqa: PLC0415 # its parser takes long to import

        found[matches(data, parse_filter(condition, tuple(_columns(data.schema))))] = True
    return found


def _columns(schema: pa.Schema) -> Iterator[Column]:
    """Yield the columns that a condition can be about: those of nulls alone, for instance, have no type."""
    for place, field in enumerate(schema, 1):
        try:
            yield from build_columns(pa.schema([field]), first_id=place)
        except UnsupportedType:
            continue
