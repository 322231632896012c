"""How far a micro-batch may read, by what snapshots say of themselves and by their sizes."""

from datetime import UTC, datetime

import pytest

from ducklake_core.feed.history import TableSnapshot
from ducklake_core.feed.sizes import ChangeSize
from ducklake_core.model import SnapshotId
from ducklake_core.spec.changes import ChangeKind
from ducklake_sources.admission import Limits, admit

INSERT = frozenset({ChangeKind.INLINED_INSERT})
FLUSH_AND_DELETE = frozenset({ChangeKind.INLINE_FLUSH, ChangeKind.DELETED_FROM_TABLE})


@pytest.mark.parametrize(
    ("rows", "admitted"),
    [((10, 500, 10), [1]), ((10, 85, 10), [1, 2]), ((10, 0, 10), [1, 2, 3]), ((500, 1, 10), [1])],
    ids=str,
)
def test_rows_that_a_flush_may_have_deleted_count(rows: tuple[int, ...], admitted: list[int]) -> None:
    kinds = (INSERT, FLUSH_AND_DELETE, INSERT)
    snapshots = [
        TableSnapshot(SnapshotId(i), datetime(2026, 1, 1, tzinfo=UTC), 1, 1, kind) for i, kind in enumerate(kinds, 1)
    ]
    sizes = {i: ChangeSize(count) for i, count in enumerate(rows, 1) if count}

    assert [s.snapshot_id for s in admit(snapshots, sizes, Limits(rows=100))] == admitted
