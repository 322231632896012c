"""Which snapshots a feed needs: those of its range, and the one before it when rows may have gone with a whole file."""

import datetime as dt
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.errors import InvalidInput, SnapshotsExpired
from ducklake_core.feed.history import History, find_gap, gap_error, history_of
from ducklake_core.feed.rows import change_schema
from ducklake_core.model import Column, ColumnId, SnapshotId, SnapshotSpan, TableId
from ducklake_core.spec.rows import HistoryRow

TIME = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TABLE = TableId(1)
WHOLE_FILES = [
    "deleted_from_table:1",
    "inserted_into_table:1,deleted_from_table:1",
    "deleted_from_table:1,inline_flush:1",
    None,  # it does not say what it did
]
HARMLESS = ["", "inserted_into_table:1", "inlined_delete:1", "inline_flush:1", "deleted_from_table:2"]


def history(start: int, end: int, changes: dict[int, str | None]) -> History:
    """Return what there is of a range when only these snapshots are left."""
    base = max((i for i in changes if i <= start), default=start)
    rows = [HistoryRow(SnapshotId(i), TIME, 1, i, text) for i, text in sorted(changes.items()) if base <= i <= end]
    return history_of(SnapshotSpan(SnapshotId(start), SnapshotId(end)), rows, TABLE)


@given(st.sets(st.integers(1, 9)), st.integers(0, 8), st.integers(1, 9), st.integers(1, 5))
def test_every_snapshot_of_the_range_since_the_table_began_is_needed(
    left: set[int], start: int, length: int, table_begin: int
) -> None:
    end = min(9, start + length)
    found = find_gap(history(start, end, dict.fromkeys(left, "inserted_into_table:1")), SnapshotId(table_begin))

    missing = [i for i in range(max(start + 1, table_begin), end + 1) if i not in left]
    assert found == ((missing[0], missing[-1]) if missing else None)


@pytest.mark.parametrize("text", WHOLE_FILES)
def test_the_snapshot_before_is_needed_when_whole_files_may_have_been_deleted(text: str) -> None:
    rest = {6: None, 7: "inserted_into_table:1"}

    assert find_gap(history(4, 7, {4: None, 5: text, **rest}), SnapshotId(1)) is None
    assert find_gap(history(4, 7, {5: text, **rest}), SnapshotId(1)) == (5, 5)
    assert find_gap(history(4, 7, {3: None, 5: text, **rest}), SnapshotId(1)) == (5, 5)
    assert find_gap(history(4, 7, {5: text, **rest}), SnapshotId(5)) is None  # the table began there


@pytest.mark.parametrize("text", HARMLESS)
def test_an_expired_start_is_no_gap_when_nothing_can_be_lost(text: str | None) -> None:
    assert find_gap(history(4, 5, {5: text}), SnapshotId(1)) is None


def test_an_error_names_the_range_and_what_helps_and_travels() -> None:
    error = gap_error("main.t", SnapshotSpan(SnapshotId(3), SnapshotId(9)), (SnapshotId(4), SnapshotId(6)))

    assert isinstance(error, SnapshotsExpired)
    assert "'main.t' after snapshot 3 up to 9: snapshots 4 to 6" in error.message
    assert "failOnDataLoss=false" in error.message
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 # our own
    assert (again.message, again.facts) == (error.message, error.facts)


def test_file_ids_begin_with_those_that_the_newest_snapshot_before_the_range_has_not_given() -> None:
    assert history(4, 7, {2: None, 5: None}).first_new_file_id == 2
    assert history(4, 7, {5: None}).first_new_file_id == 0


def test_a_column_with_a_name_of_the_feed_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'_rowid' of the table has the name of a column of the change feed"):
        change_schema([Column(ColumnId(1), "_rowid", "int64")])


def test_executors_need_no_driver_of_a_database() -> None:
    program = "import sys, ducklake_sources.partitions; print({'sqlalchemy', 'psycopg', 'sqlglot'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert done.stdout == "set()\n"
