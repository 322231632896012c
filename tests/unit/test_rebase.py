"""What becomes of changes when others have committed since their base: they follow, need files, or are refused."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pyarrow as pa
import pytest

from ducklake_core.model import (
    Column,
    ColumnId,
    DataFileId,
    DeleteFileId,
    InlinedTable,
    NewDeleteFile,
    ReplacedFile,
    SchemaId,
    Snapshot,
    SnapshotId,
    TableId,
    TableVersion,
)
from ducklake_core.plan.commit_plan import HeadState
from ducklake_core.plan.inlined_rows import InlinedRows
from ducklake_core.plan.rebase import (
    Changes,
    Drift,
    NeedsFiles,
    Rebased,
    Redefined,
    Refused,
    find_drift,
    is_redefined,
    needs_changes,
    rebase,
)
from ducklake_core.plan.staged import InlinedEnd, ReplacedDeletes, Staged, StagedTable, TableWrites

COLUMNS = (Column(ColumnId(1), "id", "int64"),)
TABLE = TableVersion(
    table_id=TableId(3),
    table_uuid=UUID(int=1),
    schema_id=SchemaId(0),
    schema_name="main",
    name="t",
    path="t/",
    path_is_relative=True,
    directory="/lake/main/t/",
    columns=COLUMNS,
    next_column_id=2,
    inlined_tables=(InlinedTable("ducklake_inlined_data_3_2", 2, COLUMNS),),
)
BASE = Snapshot(SnapshotId(41), datetime(2026, 1, 1, tzinfo=UTC), 7, 12, 30)
OLDER = replace(BASE, snapshot_id=SnapshotId(40))
NEXT = replace(BASE, snapshot_id=SnapshotId(42))
ALTERED = replace(NEXT, schema_version=8)
APPEND = TableWrites(inlined=(InlinedRows(pa.table({"id": [5, 6]}), COLUMNS),))
END = TableWrites(inlined_ends=(InlinedEnd("ducklake_inlined_data_3_2", (1,)),))
MERGED_DELETES = TableWrites(
    delete_files=(
        ReplacedDeletes(
            DataFileId(1),
            NewDeleteFile("d.parquet", path_is_relative=True, delete_count=5, file_size_bytes=100, footer_size=10),
            SnapshotId(40),
            (ReplacedFile(DeleteFileId(2), "old.parquet", path_is_relative=True),),
        ),
    )
)
MOVED = replace(TABLE, inlined_tables=(InlinedTable("ducklake_inlined_data_3_8", 8, COLUMNS),))
WIDER = replace(TABLE, columns=(*COLUMNS, Column(ColumnId(2), "x", "int32")))
INSERT, DELETE, FLUSH = "inlined_insert:3", "inlined_delete:3", "inline_flush:3"


def staged(writes: TableWrites, finished_for: int | None = None) -> Staged:
    named = None if finished_for is None else SnapshotId(finished_for)
    return Staged(BASE, (StagedTable(TABLE, TABLE, writes),), finished_for=named)


def head(snapshot: Snapshot, base: Snapshot | None = BASE) -> HeadState:
    return HeadState(snapshot, {}, base)


def since(*texts: str) -> list[Changes]:
    return [(SnapshotId(42 + number), text) for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("writes", "found", "redefined", "drift", "changes"),
    [
        pytest.param(APPEND, head(BASE), {}, Drift.NONE, False, id="nobody has committed"),
        pytest.param(END, head(BASE), {}, Drift.NONE, False, id="nobody has committed, a delete"),
        pytest.param(APPEND, head(NEXT), {}, Drift.NONE, False, id="append, same definitions"),
        pytest.param(APPEND, head(ALTERED), {}, Drift.DEFINITIONS, False, id="append, another table was altered"),
        pytest.param(APPEND, head(ALTERED), {3: MOVED}, Drift.DEFINITIONS, False, id="append, rows go elsewhere"),
        pytest.param(APPEND, head(ALTERED), {3: WIDER}, Drift.DEFINITIONS, True, id="append, other columns"),
        pytest.param(APPEND, head(ALTERED), {3: None}, Drift.DEFINITIONS, True, id="append, dropped"),
        pytest.param(APPEND, head(NEXT, None), {}, Drift.DEFINITIONS, False, id="append, the base has expired"),
        pytest.param(END, head(NEXT), {}, Drift.ROWS, True, id="delete, same definitions"),
        pytest.param(END, head(ALTERED), {}, Drift.DEFINITIONS, True, id="delete, another table was altered"),
        pytest.param(
            APPEND, head(replace(BASE, snapshot_id=SnapshotId(40))), {}, Drift.OTHER_LAKE, False, id="restored"
        ),
    ],
)
def test_only_what_matters_is_asked_for(
    writes: TableWrites, found: HeadState, redefined: Redefined, drift: Drift, *, changes: bool
) -> None:
    assert find_drift(staged(writes), found) is drift
    assert needs_changes(staged(writes), drift, redefined) is changes


@pytest.mark.parametrize(
    ("writes", "found", "others"),
    [
        pytest.param(APPEND, head(BASE), None, id="nobody has committed"),
        pytest.param(APPEND, head(NEXT), None, id="append beside anything"),
        pytest.param(END, head(NEXT), since(INSERT), id="delete beside an insert"),
    ],
)
def test_changes_follow_as_they_are(writes: TableWrites, found: HeadState, others: Sequence[Changes] | None) -> None:
    mine = staged(writes)

    assert rebase(mine, found, {}, others) == Rebased(mine)


def test_new_rows_go_where_rows_go_now() -> None:
    outcome = rebase(staged(APPEND), head(ALTERED), {TABLE.table_id: MOVED}, None)

    assert isinstance(outcome, Rebased)
    [table] = outcome.staged.tables
    assert (table.before, table.after, table.writes) == (MOVED, MOVED, APPEND)


def test_delete_files_that_name_another_snapshot_are_needed_anew() -> None:
    others = since(INSERT)

    assert rebase(staged(MERGED_DELETES, 42), head(NEXT), {}, others) == NeedsFiles(SnapshotId(43))
    assert rebase(staged(MERGED_DELETES, 43), head(NEXT), {}, others) == Rebased(staged(MERGED_DELETES, 43))


@pytest.mark.parametrize(
    ("writes", "found", "redefined", "others", "reason"),
    [
        pytest.param(APPEND, head(OLDER), {}, None, "restored from a backup", id="older head"),
        pytest.param(APPEND, head(NEXT, replace(BASE, next_file_id=31)), {}, None, "restored", id="another base"),
        pytest.param(END, head(NEXT), {}, [], "snapshots since then have expired", id="expired between"),
        pytest.param(END, head(NEXT), {}, since(DELETE), "'main.t' had rows deleted in snapshot 42", id="delete"),
        pytest.param(
            APPEND, head(ALTERED), {3: None}, since("dropped_table:3"), "'main.t' was dropped in snapshot 42", id="drop"
        ),
        pytest.param(APPEND, head(ALTERED), {3: WIDER}, since(INSERT), "has another definition now", id="in silence"),
    ],
)
def test_changes_that_cannot_follow_are_refused_with_the_reason(
    writes: TableWrites, found: HeadState, redefined: Redefined, others: Sequence[Changes] | None, reason: str
) -> None:
    outcome = rebase(staged(writes), found, redefined, others)

    assert isinstance(outcome, Refused)
    assert reason in outcome.reason
    error = outcome.to_error()
    assert error.message == f"cannot commit on snapshot 41: {outcome.reason}"
    assert (error.base, error.rows_moved) == (41, False)


def test_refusal_tells_a_flush_from_other_deletes() -> None:
    outcome = rebase(staged(END), head(NEXT), {}, since(FLUSH))

    assert isinstance(outcome, Refused)
    assert outcome.rows_moved


def test_comments_sort_order_and_older_inlined_tables_are_no_other_definition() -> None:
    older = InlinedTable("ducklake_inlined_data_3_1", 1, COLUMNS)
    commented = tuple(replace(column, comment="c") for column in COLUMNS)

    assert not is_redefined(TABLE, replace(TABLE, comment="c", columns=commented))
    assert not is_redefined(TABLE, replace(TABLE, inlined_tables=(older, *TABLE.inlined_tables)))
    assert is_redefined(TABLE, MOVED)
    assert is_redefined(TABLE, WIDER)
    assert is_redefined(TABLE, None)


@pytest.mark.parametrize("other", [INSERT, DELETE, "inserted_into_table:3", "deleted_from_table:3"])
@pytest.mark.parametrize("writes", [APPEND, TableWrites()], ids=["inserts", "nothing"])
def test_what_rests_on_rows_follows_on_no_change_of_rows(writes: TableWrites, other: str) -> None:
    mine = Staged(BASE, (StagedTable(TABLE, TABLE, writes, rests_on_rows=True),))
    assert find_drift(mine, head(NEXT)) is Drift.ROWS
    assert isinstance(rebase(mine, head(NEXT), {}, since(other)), Refused)
    assert isinstance(rebase(mine, head(NEXT), {}, since(other.replace(":3", ":4"))), Rebased)
