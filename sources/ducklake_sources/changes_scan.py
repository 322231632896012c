"""Changes by Spark's own Parquet scan, without Python on executors. Runs on the driver.

The driver finds out which rows of which files have which events, as our own reader does (`feed/located`), and marks
them; Spark reads the files and keeps the marked rows. Inlined rows come from the driver, as do all changes when they
are few. Files that Spark's reader would not read just as we do are left to our own reader, on executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core import Lake
from ducklake_core.feed.change_types import ChangeType
from ducklake_core.feed.events import snapshot_of_all
from ducklake_core.feed.listing import FeedRequest
from ducklake_core.feed.located import LocatedChanges, locate_changes
from ducklake_core.feed.rows import read_changes
from ducklake_core.feed.sharing import share_out
from ducklake_core.feed.task import ChangedFile, ChangeTask, FeedMode, InlinedChanges
from ducklake_core.files.storage import Storage
from ducklake_core.model import SnapshotSpan
from ducklake_core.plan.definition import find_column
from ducklake_sources.native_files import (
    NativeFile,
    groups_of,
    may_overflow,
    read_footers,
    unfit_columns,
    unnamed,
)
from ducklake_sources.partitions import CHANGE_COLUMNS, FeedPartition, feed_schema, read_partition, spark_rows
from ducklake_sources.row_marks import CHANGE_TYPE, ROW_ID, VERSION, MarkedRows, join_marks, named_columns, scan_files
from ducklake_sources.spark_schema import demanded_schema, local_frame, spark_schema

_THREADS = 8  # that read delete files, row ids and snapshots of files
# The driver holds some 25 bytes for each row that it marks one by one; more of them are left to our own reader.
_MAX_MARKED_ROWS = 16_000_000
_FEW_ROWS, _FEW_BYTES = 500_000, 32 * 2**20  # of changes, of Parquet: so much the driver itself reads
_LARGE_BYTES, _BYTES_PER_TASK = 48 * 2**20, 16 * 2**20  # of rows that the driver has read; fewer Spark shares out well
ALL_KINDS = frozenset(ChangeType)


def native_changes(  # noqa: PLR0913 # each is a choice that users make, by name
    spark: SparkSession,
    catalog: str,
    table: str,
    start: int | datetime,
    end: int | datetime | None = None,
    *,
    columns: Sequence[str] | None = None,
    net: bool = False,
    metadataSchema: str | None = None,  # noqa: N803 # as the option of format("ducklake") is called
    storage: Mapping[str, object] | None = None,
) -> DataFrame:
    """Return what the rows of a table did from one snapshot to another, both ends included, as `Lake.changes` does.

    Files are read by Spark's own scan wherever it gives the same rows. Raises SnapshotsExpired when some of it is gone.
    """
    with Lake.open(catalog, metadata_schema=metadataSchema, storage=storage) as lake:
        feed = lake.feed(table, at=end)
        version = feed.table
        shown = version.columns if columns is None else tuple(find_column(version, [name]) for name in columns)
        schema = feed_schema(shown, with_changes=True)
        span = SnapshotSpan(feed.before(start), feed.seen_at.snapshot_id)
        if span.start >= span.end:
            return spark.createDataFrame([], schema)
        mode = FeedMode.NET if net else FeedMode.CHANGES
        task = feed.list_changes(FeedRequest(version, shown, span, mode)).task
        return changes_frame(spark, lake.storage, task, ALL_KINDS)


def changes_frame(
    spark: SparkSession, storage: Storage, task: ChangeTask, kinds: frozenset[ChangeType] | None
) -> DataFrame:
    """Return the changes of a task that has everything, some kinds of them; None: inserted rows alone, as rows."""
    schema = feed_schema(task.columns, with_changes=kinds is not None)
    if _are_few(task):
        return _local(spark, spark_rows(read_changes(storage, task, threads=_THREADS), task.columns, kinds), schema)
    fit = _fit_files(storage, task)
    located = locate_changes(storage, task, [changed for changed, _ in fit.values()], threads=_THREADS)
    frames = list(_scans(spark, task, located.files, fit, kinds))
    inlined = list(spark_rows(located.inlined, task.columns, kinds))
    parts = list(_left_to_us(task, set(fit)))
    if inlined or not (frames or parts):
        frames.append(_local(spark, inlined, schema))
    if parts:
        frames.append(_by_our_reader(spark, [FeedPartition(storage, part, kinds) for part in parts], schema))
    return reduce(DataFrame.union, frames)


# ------------------------------------------------------------------------------------- who reads what


def _are_few(task: ChangeTask) -> bool:
    """Tell whether the driver reads all changes sooner than Spark has planned a scan; then it needs no footers."""
    rows = sum(map(_marked_rows, task.files)) + sum(part.rows for part in task.inlined)
    size_bytes = sum(_marked_rows(c) / max(1, c.file.record_count) * c.file.file_size_bytes for c in task.files)
    travels = all(isinstance(part, InlinedChanges) for part in task.inlined)
    return travels and rows <= _FEW_ROWS and size_bytes <= _FEW_BYTES


def _local(spark: SparkSession, rows: Iterable[pa.RecordBatch], schema: T.StructType) -> DataFrame:
    table = pa.Table.from_batches(rows, demanded_schema(schema))
    frame = local_frame(spark, table, schema)
    if table.nbytes < _LARGE_BYTES or not hasattr(spark, "_jsparkSession"):
        return frame
    # Of so many, Spark makes a task of each 10,000 rows. What a task gets travels with it, and must not be too much.
    tasks = max(2 * spark.sparkContext.defaultParallelism, table.nbytes // _BYTES_PER_TASK + 1)
    return frame.coalesce(tasks)


def _fit_files(storage: Storage, task: ChangeTask) -> dict[int, tuple[ChangedFile, NativeFile]]:
    """Return the files of a task that Spark reads, by their ids."""
    if any(unfit_columns(task.columns)) or may_overflow(task.columns) or not task.columns:
        return {}
    chosen = task.files if sum(map(_marked_rows, task.files)) <= _MAX_MARKED_ROWS else ()
    chosen = chosen or tuple(changed for changed in task.files if snapshot_of_all(changed, task) is not None)
    footers = read_footers(storage, [changed.file for changed in chosen], task.columns)
    fit = [f for f in footers if not f.reasons and f.has_row_ids is not None and _has_row_ids(f) and _is_counted(f)]
    odd = {one.file.data_file_id for one in unnamed(fit)}
    by_id = {one.file.data_file_id: one for one in fit if one.file.data_file_id not in odd}
    ids = ((changed.file.data_file_id, changed) for changed in chosen)
    return {i: (changed, by_id[i]) for i, changed in ids if i in by_id}


def _has_row_ids(file: NativeFile) -> bool:
    return bool(file.has_row_ids) or file.file.row_id_start is not None


def _is_counted(file: NativeFile) -> bool:
    return file.rows == file.file.record_count


def _marked_rows(changed: ChangedFile) -> int:
    """Return about how many rows of a file are marked one by one."""
    file = changed.file
    if changed.holds_new_rows or file.end_snapshot is not None:
        return file.record_count
    return sum(d.delete_count for d in file.delete_files) + len(changed.inlined_deletes)


def _left_to_us(task: ChangeTask, fit: set[int]) -> Iterator[ChangeTask]:
    """Yield what our own reader reads: shares of the task, in which the rest only tells the other halves of updates."""
    for part in share_out(task):
        files = tuple(changed for changed in part.files if changed.file.data_file_id not in fit)
        inlined = tuple(one for one in part.inlined if not isinstance(one, InlinedChanges))
        if not files and not inlined:
            continue
        others = tuple(changed for changed in part.files if changed.file.data_file_id in fit)
        shipped = tuple(one.without_columns() for one in part.inlined if isinstance(one, InlinedChanges))
        yield replace(
            part,
            files=files,
            inlined=inlined,
            counterpart_files=(*part.counterpart_files, *others),
            counterpart_inlined=(*part.counterpart_inlined, *shipped),
        )


def _by_our_reader(spark: SparkSession, partitions: Sequence[FeedPartition], schema: T.StructType) -> DataFrame:
    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for record_batch in numbers:
            for number in record_batch.column(0).to_pylist():
                yield from read_partition(partitions[number])

    count = len(partitions)
    return spark.range(0, count, 1, count).mapInArrow(read, schema)


# --------------------------------------------------------------------------------------------- reading


def _scans(
    spark: SparkSession,
    task: ChangeTask,
    located: Sequence[LocatedChanges],
    fit: Mapping[int, tuple[ChangedFile, NativeFile]],
    kinds: frozenset[ChangeType] | None,
) -> Iterator[DataFrame]:
    """Yield frames of rows of files as the feed has them."""
    marks: dict[int, list[MarkedRows]] = {}
    for changes in located:
        if _is_wanted(changes, kinds):
            file_id = changes.changed.file.data_file_id
            marks.setdefault(file_id, []).append(_marked(fit[file_id][1], changes))
    schema = spark_schema(task.columns)
    change = [f"{sql} AS {field.name}" for sql, field in zip(_change_of(task), CHANGE_COLUMNS, strict=True)]
    for group in groups_of([fit[file_id][1] for file_id in marks]):
        marked = [one for file in group.files for one in marks[file.file.data_file_id]]
        rows = join_marks(spark, scan_files(spark, group, schema, with_row_ids=True), group, marked, "inner")
        found = rows.selectExpr(*named_columns(schema), *(change if kinds is not None else ()))
        if kinds is not None and kinds != ALL_KINDS:
            found = found.where(F.col(CHANGE_COLUMNS[0].name).isin([kind.name for kind in kinds]))
        yield found


def _is_wanted(changes: LocatedChanges, kinds: frozenset[ChangeType] | None) -> bool:
    if kinds is None:
        return not changes.is_delete
    own = (
        (ChangeType.delete, ChangeType.update_preimage)
        if changes.is_delete
        else (ChangeType.insert, ChangeType.update_postimage)
    )
    return any(kind in kinds for kind in own)


def _marked(file: NativeFile, found: LocatedChanges) -> MarkedRows:
    updates = found.are_updates if found.are_updates.any() else None
    return MarkedRows(file, found.positions, found.snapshots, updates, found.is_delete)


def _change_of(task: ChangeTask) -> Sequence[str]:
    """Return what tells of the change of a marked row, as SQL. Times of snapshots are in a list, by their distance."""
    if not task.times:
        return (CHANGE_TYPE, VERSION, "timestamp_micros(0)", ROW_ID)
    first, last = task.times[0][0], task.times[-1][0]
    times = pa.array([time for _, time in task.times], pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
    ticks = dict.fromkeys(range(first, last + 1), 0)
    ticks.update(zip((snapshot for snapshot, _ in task.times), times, strict=True))
    array = f"CAST(split('{','.join(map(str, ticks.values()))}', ',') AS ARRAY<BIGINT>)"
    return (CHANGE_TYPE, VERSION, f"timestamp_micros(get({array}, CAST({VERSION} - {first} AS INT)))", ROW_ID)
