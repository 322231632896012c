"""Which of two sequences is older. They are compared column by column, the first that differs decides. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.spec.arrays import plain, single

_FALSE = pa.scalar(value=False)


def is_older(events: pa.Table, stored: pa.Table) -> np.ndarray:
    """Tell of each event whether what is stored is newer; a null that is stored is newer than nothing."""
    older = np.zeros(events.num_rows, bool)
    for event, known in reversed(list(zip(events.columns, stored.columns, strict=True))):
        left, right = plain(single(event)), plain(single(known))
        older = _true(pc.less(left, right)) | (_true(pc.equal(left, right)) & older)
    return older


def _true(found: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(found, _FALSE).to_numpy(zero_copy_only=False))
