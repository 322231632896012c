"""`DuckLakeTable`: a table with the methods that users of `DeltaTable` know. Runs on the driver.

Changes are made by `Lake`, in this process: what they need of a DataFrame is collected here. For large ones there is
the sink. What would mean something else than in Delta Lake is refused, and says what to do instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import MaintenanceReport, Snapshot
from ducklake_core.errors import InvalidInput
from ducklake_core.metadata_tables import read_metadata
from ducklake_core.spec.names import join_table_name
from ducklake_core.spec.types import build_columns
from ducklake_sources.lake_frames import LakeFrames
from ducklake_sources.merge import MergeBuilder
from ducklake_sources.spark_schema import SparkBatches, spark_schema

_HISTORY = {
    "version": "int64",
    "timestamp": "timestamptz",
    "operations": "list(varchar)",
    "author": "varchar",
    "message": "varchar",
    "extra_info": "varchar",
}
_RETENTION_HOURS = 168.0  # a week, as in Delta Lake


class DuckLakeTable:
    """A table of a lake. Make it with `for_name`; each method opens the lake and closes it again."""

    def __init__(self, frames: LakeFrames, name: str) -> None:
        self._frames = frames
        self.name = name

    @classmethod
    def for_name(
        cls,
        spark: SparkSession,
        catalog: str,
        name: str,
        *,
        metadata_schema: str | None = None,
        storage: Mapping[str, object] | None = None,
    ) -> DuckLakeTable:
        """Return a table that is there, by the catalog's address and its name; raise ObjectNotFound."""
        frames = LakeFrames(spark, catalog, metadata_schema, storage)
        with frames.open() as lake:
            version = lake.table(name).version
        return cls(frames, join_table_name(version.schema_name, version.name))

    # ---- reading

    def to_df(self, version: int | None = None) -> DataFrame:
        """Return the rows at a snapshot, by default the newest."""
        return self._frames.table(self.name, version)

    def history(self, limit: int | None = None) -> DataFrame:
        """Return the snapshots that changed the table and have not expired, the newest first."""
        with self._frames.open() as lake:
            version = lake.table(self.name).version
            changes = read_metadata(lake, "changes_made").to_pylist()
            snapshots: dict[int, Snapshot] = {one.snapshot_id: one for one in lake.snapshots()}
        done: dict[int, list[str]] = {}
        for change in changes:
            is_named = change["object_id"] is None and change["table_name"] == self.name
            is_ours = is_named or change["object_id"] == version.table_id
            if is_ours and change["snapshot_id"] >= version.begin_snapshot:
                done.setdefault(change["snapshot_id"], []).append(change["change"])
        found = [(snapshots[i], kinds) for i, kinds in sorted(done.items(), reverse=True) if i in snapshots]
        rows = [
            (one.snapshot_id, one.snapshot_time, kinds, one.author, one.message, one.extra_info)
            for one, kinds in found[:limit]
        ]
        return self._frame(_HISTORY, [dict(zip(_HISTORY, row, strict=True)) for row in rows])

    def detail(self) -> DataFrame:
        """Return one row: how much there is, where, and by what the table is partitioned and sorted."""
        with self._frames.open() as lake:
            [row] = read_metadata(lake, "tables", self.name).to_pylist()
            version = lake.table(self.name).version
        names = {column.column_id: column.name for column in version.columns}
        keys = version.partitioning.keys if version.partitioning else ()
        partition_by = [
            names[k.column_id] if k.transform == "identity" else _shown(k.transform, names[k.column_id]) for k in keys
        ]
        sorted_by = [key.expression for key in version.sort_order.keys] if version.sort_order else []
        types = {"format": "varchar", **_DETAIL, "partition_by": "list(varchar)", "sorted_by": "list(varchar)"}
        told = {"format": "ducklake", **row, "partition_by": partition_by, "sorted_by": sorted_by}
        return self._frame(types, [{name: told[name] for name in types}])

    def _frame(self, types: Mapping[str, str], rows: Sequence[Mapping[str, object]]) -> DataFrame:
        columns = build_columns(types)
        batches = SparkBatches.of(columns)
        table = pa.Table.from_pylist(list(rows), batches.schema)
        return self._frames.spark.createDataFrame(table, spark_schema(columns))

    # ---- changing

    def delete(self, condition: str | None = None) -> Snapshot | None:
        """Delete the rows that match a condition in DuckDB's SQL, all without one; return the snapshot."""
        _refuse_columns(condition)
        with self._frames.open() as lake:
            return lake.delete(self.name, condition)

    def update(
        self, condition: str | None = None, *more: object, values: Mapping[str, object] | None = None, **other: object
    ) -> Snapshot | None:
        """Set columns of the rows that match, of all without a condition; return the snapshot.

        `values`, by name only: Python values or `pyarrow.compute` expressions by column. They are no texts of SQL, as
        those of Delta's `set` are.
        """
        if more or other or not values:
            raise InvalidInput(
                "update takes values={'column': value} by name, of Python values or pyarrow.compute expressions; "
                "Delta's set, whose texts are SQL, is not understood: \"'x'\" becomes 'x', "
                "and \"n + 1\" becomes pc.field('n') + 1"
            )
        _refuse_columns(condition)
        with self._frames.open() as lake:
            return lake.update(self.name, values, condition)

    def merge(self, source: DataFrame, condition: str | Sequence[str]) -> MergeBuilder:
        """Begin a merge of a DataFrame by key; `execute` of what it returns does it.

        `condition`: the key columns, or `target.id = source.id AND …` with the same name on both sides.
        """
        return MergeBuilder(self._frames, self.name, source, condition)

    def restore_to_version(self, version: int) -> Snapshot | None:
        """Make the rows what they were at a snapshot, by a new one; None: they are so already."""
        with self._frames.open() as lake:
            return lake.restore(self.name, version)

    # ---- maintaining

    def optimize(self) -> list[MaintenanceReport]:
        """Flush inlined rows, merge small files, and rewrite those with many deleted rows; return what was done."""
        with self._frames.open() as lake:
            lake.flush_inlined(self.name)
            return [lake.merge_adjacent_files(self.name), lake.rewrite_data_files(self.name)]

    def vacuum(self, retention_hours: float = _RETENTION_HOURS, *, dry_run: bool = False) -> list[MaintenanceReport]:
        """Expire snapshots that are older, and remove files that no snapshot needs.

        Snapshots are of the **whole lake**: this concerns all its tables. Files that were just given up stay as long as
        the lake's option `delete_older_than` says, two days by default.
        """
        with self._frames.open() as lake:
            expired = lake.expire_snapshots(older_than=timedelta(hours=retention_hours), dry_run=dry_run)
            return [expired, lake.cleanup_old_files(dry_run=dry_run)]


_DETAIL = {
    **dict.fromkeys(("table_name", "table_uuid", "path", "comment"), "varchar"),
    **dict.fromkeys(("row_count", "file_count", "file_size_bytes", "deleted_rows", "inlined_rows"), "int64"),
}


def _shown(transform: str, column: str) -> str:
    """Return a key as `partition_by` takes it: `day(ts)`, `bucket(4, id)`."""
    name, bracket, count = transform.partition("(")
    return f"{name}({count.rstrip(')')}, {column})" if bracket else f"{name}({column})"


def _refuse_columns(condition: object) -> None:
    if condition is not None and not isinstance(condition, str):
        raise InvalidInput(
            "a condition is a text in DuckDB's SQL, such as \"id > 3\": Spark's columns are not understood"
        )
