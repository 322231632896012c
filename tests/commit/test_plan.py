"""The commit plan, pure: counters, ids and the order of writes on top of any head."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.model import (
    Column,
    ColumnId,
    ColumnStats,
    InlinedTable,
    NewDataFile,
    SchemaId,
    Snapshot,
    SnapshotId,
    TableId,
    TableStats,
    TableVersion,
)
from ducklake_core.plan.commit_plan import CommitPlan, HeadState, plan_commit
from ducklake_core.plan.inlined_rows import InlinedRows
from ducklake_core.plan.staged import Staged, StagedTable, TableWrites
from ducklake_core.plan.writes import CreateInlinedTable, InsertInlined, InsertRows, UpdateRows

NOW = datetime(2026, 1, 2, tzinfo=UTC)
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
HEAD = Snapshot(SnapshotId(41), datetime(2026, 1, 1, tzinfo=UTC), 7, 12, 30)
ROWS = InlinedRows(pa.table({"id": [5, 6]}), COLUMNS)
FILE = NewDataFile(
    path="x.parquet",
    path_is_relative=True,
    record_count=100,
    file_size_bytes=1234,
    footer_size=99,
    column_stats=(ColumnStats(ColumnId(1), 100, 0, "1", "100"),),
)


def test_snapshot_is_written_first_and_its_changes_last() -> None:
    plan = plan_append(TableWrites(inlined=(ROWS,), files=(FILE,)))

    first, *_, last = [*plan.rows, *plan.closing()]
    assert isinstance(first, InsertRows)
    assert isinstance(last, InsertRows)
    assert (first.table, last.table) == ("ducklake_snapshot", "ducklake_snapshot_changes")
    assert last.rows[0]["changes_made"] == "inserted_into_table:3,inlined_insert:3"


def test_inlined_append_moves_the_file_counter_although_it_uses_no_id() -> None:
    """DuckDB keys its cache of statistics by this counter: else open sessions return wrong values."""
    plan = plan_append(TableWrites(inlined=(ROWS,)))

    assert plan.snapshot == Snapshot(SnapshotId(42), NOW, 7, 12, 31, "inlined_insert:3")


def test_row_ids_follow_those_of_the_table() -> None:
    plan = plan_append(TableWrites(inlined=(ROWS,), files=(FILE,)))

    [file_row] = rows_of(plan, "ducklake_data_file")
    [inlined] = [w for w in plan.rows if isinstance(w, InsertInlined)]
    [stats] = rows_of(plan, "ducklake_table_stats")
    assert (file_row["data_file_id"], file_row["row_id_start"]) == (30, 1000)
    assert inlined.row_ids.tolist() == [1100, 1101]
    assert (stats["next_row_id"], stats["record_count"], stats["file_size_bytes"]) == (1102, 602, 1234)


def test_updated_rows_keep_their_ids_and_take_no_new_ones() -> None:
    plan = plan_append(TableWrites(inlined=(replace(ROWS, row_ids=pa.array([8, 9])),)))

    [inlined] = [w for w in plan.rows if isinstance(w, InsertInlined)]
    [stats] = rows_of(plan, "ducklake_table_stats")
    assert inlined.row_ids.tolist() == [8, 9]
    assert stats["next_row_id"] == 1000


def test_first_inlined_rows_make_their_table_under_a_new_schema_version() -> None:
    bare = replace(TABLE, inlined_tables=())
    staged = Staged(HEAD, (StagedTable(bare, bare, TableWrites(inlined=(ROWS,))),))

    plan = plan_commit(staged, HeadState(HEAD, {TABLE.table_id: None}), NOW)

    assert plan.snapshot.schema_version == 8
    assert [w.name for w in plan.rows if isinstance(w, CreateInlinedTable)] == ["ducklake_inlined_data_3_8"]
    [version] = rows_of(plan, "ducklake_schema_versions")  # its columns are those of this snapshot, not of the first
    assert version == {"begin_snapshot": 42, "schema_version": 8, "table_id": 3}


def test_created_table_and_schema_get_the_next_catalog_ids() -> None:
    new = replace(TABLE, table_id=TableId(-2), inlined_tables=())
    staged = Staged(HEAD, (StagedTable(None, new, inlines=True),))

    plan = plan_commit(staged, HeadState(HEAD, {}), NOW)

    [row] = rows_of(plan, "ducklake_table")
    assert (row["table_id"], row["begin_snapshot"]) == (12, 42)
    assert (plan.snapshot.next_catalog_id, plan.snapshot.schema_version) == (13, 8)
    assert plan.snapshot.changes == 'created_table:"main"."t"'


@given(head_id=st.integers(0, 2**40), next_row_id=st.integers(0, 2**40), next_file_id=st.integers(0, 2**40))
def test_same_changes_on_another_head_differ_in_numbers_only(head_id: int, next_row_id: int, next_file_id: int) -> None:
    """What a retry does: nothing of the plan is bound to the head it was first made on."""
    head = replace(HEAD, snapshot_id=SnapshotId(head_id), next_file_id=next_file_id)
    staged = Staged(HEAD, (StagedTable(TABLE, TABLE, TableWrites(files=(FILE,))),))

    plan = plan_commit(staged, HeadState(head, {TABLE.table_id: TableStats(500, next_row_id, 0, {})}), NOW)

    [file_row] = rows_of(plan, "ducklake_data_file")
    assert plan.snapshot.snapshot_id == head_id + 1
    assert plan.snapshot.next_file_id == next_file_id + 1
    assert (file_row["data_file_id"], file_row["row_id_start"], file_row["begin_snapshot"]) == (
        next_file_id,
        next_row_id,
        head_id + 1,
    )
    assert file_row["path"] == FILE.path


def plan_append(writes: TableWrites) -> CommitPlan:
    staged = Staged(HEAD, (StagedTable(TABLE, TABLE, writes),))
    return plan_commit(staged, HeadState(HEAD, {TABLE.table_id: TableStats(500, 1000, 0, {})}), NOW)


def rows_of(plan: CommitPlan, table: str) -> list[dict[str, object]]:
    writes = [*plan.rows, *plan.closing()]
    found = [w.rows for w in writes if isinstance(w, (InsertRows, UpdateRows)) and w.table == table]
    return [dict(row) for rows in found for row in rows]
