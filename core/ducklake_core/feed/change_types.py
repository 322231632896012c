"""What a row event is called: insert, delete, or one half of an update. Pure; runs on driver and executors.

A row that one snapshot both deletes and inserts was updated: same row id, another version. A row id that a snapshot
deletes or inserts more than once (the reference gives such ids, from 10^18 on) says nothing: its events stay deletes
and inserts, so that no row has more than one image before and one after.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import pyarrow as pa

from ducklake_core.spec.buffers import from_integers, from_texts


class ChangeType(IntEnum):
    """The kinds of row events; their names are those of the feed."""

    insert = 0
    delete = 1
    update_postimage = 2
    update_preimage = 3


# The reference's ids for rows that a transaction has not committed yet. It stores some for good, in each transaction
# the same again: several rows of a table may have one.
FIRST_LOCAL_ROW_ID = 10**18
CHANGE_TYPES = tuple(kind.name for kind in ChangeType)
_NAMES = from_texts(CHANGE_TYPES)


def change_type_array(codes: np.ndarray) -> pa.Array:
    """Return the names of change types."""
    return pa.DictionaryArray.from_arrays(from_integers(codes.astype(np.int8)), _NAMES).cast(pa.string())


def one_change_type(kind: ChangeType, count: int) -> pa.Array:
    """Return the name of one change type, so many times."""
    return pa.repeat(_NAMES[kind], count)


def find_updates(snapshots: np.ndarray, row_ids: np.ndarray, is_delete: np.ndarray) -> np.ndarray:
    """Return which events are halves of an update: of their (snapshot, row id) there is one delete and one insert."""
    order = np.lexsort((row_ids, snapshots))
    starts = _starts(snapshots[order], row_ids[order])
    group = np.cumsum(starts) - 1
    deletes = np.bincount(group, weights=is_delete[order])
    sizes = np.bincount(group)
    result = np.zeros(len(order), bool)
    result[order] = ((sizes == 2) & (deletes == 1))[group]
    return result


def find_net_changes(snapshots: np.ndarray, row_ids: np.ndarray, is_delete: np.ndarray) -> np.ndarray:
    """Return the code of what each event is of the whole range, -1 for those that others undo or outdo.

    Of each row id one event is left: a delete if it was there and is no more, an insert if it was not there and is, and
    the last version of one that was there and still is. Row ids that are inserted twice without a delete between, or
    deleted twice, or that are the reference's own, may be several rows: all their events are left as they are.
    """
    order = np.lexsort((~is_delete, snapshots, row_ids))  # of one snapshot, the delete comes first
    ids, deletes = row_ids[order], is_delete[order]
    starts = _starts(ids)
    group = np.cumsum(starts) - 1
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(order))[: len(first)] - 1
    repeats = ids[first] >= FIRST_LOCAL_ROW_ID
    same = ~starts[1:] & (deletes[1:] == deletes[:-1])
    repeats[group[1:][same]] = True
    codes = np.full(len(order), -1, np.int8)
    was_there, is_there = deletes[first], ~deletes[last]
    codes[last[is_there]] = np.where(was_there, ChangeType.update_postimage, ChangeType.insert)[is_there]
    gone = was_there & ~is_there
    codes[first[gone]] = ChangeType.delete
    plain = np.where(deletes, ChangeType.delete, ChangeType.insert)
    codes = np.where(repeats[group], plain, codes)
    result = np.empty(len(order), np.int8)
    result[order] = codes
    return result


def _starts(*keys: np.ndarray) -> np.ndarray:
    """Return where a new group of equal keys begins, in sorted keys."""
    starts = np.ones(len(keys[0]), bool)
    if len(starts):
        starts[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return starts
