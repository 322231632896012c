"""Which events are late. Sequences are compared column by column, the first that differs decides. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.errors import SchemaMismatch
from ducklake_core.spec.arrays import plain, single

_FALSE = pa.scalar(value=False)


def late_events(numbers: np.ndarray, sequence: pa.Table, stored: Iterable[tuple[np.ndarray, pa.Table]]) -> np.ndarray:
    """Tell of each event, by the number of its key, whether a sequence that is stored of the key is newer.

    `stored` has numbers of keys and their sequences; a key may be there several times.
    """
    late = np.zeros(len(numbers), bool)
    for keys, sequences in stored:
        events, places = _pairs(numbers, keys)
        late[events[is_older(sequence.take(events), sequences.take(places))]] = True
    return late


def _pairs(numbers: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where two arrays have the same number: places in the one, and in the other."""
    order = np.argsort(others, kind="stable")
    firsts, ends = (np.searchsorted(others[order], numbers, side) for side in ("left", "right"))
    counts = ends - firsts
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(np.arange(len(numbers)), counts), order[np.repeat(firsts, counts) + within]


def is_older(events: pa.Table, stored: pa.Table) -> np.ndarray:
    """Tell of each event whether what is stored is newer; a null that is stored is newer than nothing."""
    older = np.zeros(events.num_rows, bool)
    for event, known in reversed(list(zip(events.columns, stored.columns, strict=True))):
        right = plain(single(known))
        left = _as(plain(single(event)), right.type)
        older = _true(pc.less(left, right)) | (_true(pc.equal(left, right)) & older)
    return older


def _as(sequence: pa.Array, kept: pa.DataType) -> pa.Array:
    try:
        return sequence if sequence.type == kept else sequence.cast(kept)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatch(
            f"a sequence of {sequence.type} does not compare with those that are kept, which are {kept}: {error}; "
            "cast it in the events"
        ) from error


def _true(found: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(found, _FALSE).to_numpy(zero_copy_only=False))
