"""Which leaves of a Parquet file get a dictionary. Pure; runs on driver and executors.

A writer that is not told tries all: it hashes every value of a measurement only to store most of them as they are.
That takes longer than all the rest, and makes the file larger.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.files.statistics import leaf_paths, leaf_values
from ducklake_core.model import Column

_FEW_VALUES = 1000  # too few to tell, and to matter
_NOT_MANY_VALUES = 4000  # of which a short look is enough: a wrong answer costs little
_SHORT_LOOK = 250
_LOOKED_AT = 130_000  # a row group of the usual size
_FIRST_LOOK = 16_000  # which mostly tells


def repetitive_leaves(columns: Sequence[Column], rows: pa.Table) -> list[str]:
    """Return the Parquet paths of the leaves whose values occur twice or more on average, by the first of some rows."""
    first = rows.slice(0, _LOOKED_AT)
    leaves = zip(leaf_paths(columns), leaf_values(columns, first), strict=True)
    return [path for path, values in leaves if _is_repetitive(values)]


def _is_repetitive(values: Sequence[pa.Array]) -> bool:
    """Tell whether values occur twice or more on average.

    If hardly any of the first occurs twice, or most do, the others will not change that.
    """
    together = pa.chunked_array(values) if len(values) != 1 else values[0]
    count: int = len(together) - together.null_count
    if count < _FEW_VALUES:
        return True
    look, enough = (_SHORT_LOOK, _SHORT_LOOK) if count <= _NOT_MANY_VALUES else (_FIRST_LOOK, _FEW_VALUES)
    first = together.slice(0, look)
    first_count: int = len(first) - first.null_count
    if enough <= first_count < count:
        distinct = _distinct(first)
        if 2 * distinct <= first_count or 10 * distinct >= 9 * first_count:
            return 2 * distinct <= first_count
    return 2 * _distinct(together) <= count


def _distinct(values: pa.Array | pa.ChunkedArray) -> int:
    return int(pc.count_distinct(values).as_py())
