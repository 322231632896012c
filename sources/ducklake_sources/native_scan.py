"""A table by Spark's own Parquet scan: rows never pass through Python. Runs on the driver, in the user's session.

It reads the footer of every file first, and refuses whatever Spark's reader would not read just as we do. Deleted rows
are taken out by marks on their places; inlined rows are added from the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput
from ducklake_core.files.delete_files import dropped_positions
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile, SnapshotId
from ducklake_core.plan.definition import find_column
from ducklake_core.read.listing import Listing, list_table
from ducklake_core.read.request import RowRequest
from ducklake_core.read.rows import read_rows
from ducklake_core.spec.types import arrow_schema
from ducklake_sources.native_files import FOOTER_READERS, NativeFile, groups_of, read_footers, unfit_columns, unnamed
from ducklake_sources.row_marks import MarkedRows, join_marks, named_columns, scan_files
from ducklake_sources.spark_schema import SparkBatches, spark_schema

_SHOWN_REASONS = 5


def native_table(
    spark: SparkSession,
    catalog: str,
    table: str,
    versionAsOf: int | None = None,  # noqa: N803 # as the option of format("ducklake") is called
    columns: Sequence[str] | None = None,
    metadataSchema: str | None = None,  # noqa: N803 # see above
    storage: Mapping[str, object] | None = None,
) -> DataFrame:
    """Return a table at a snapshot, by default the newest, as a scan of Spark's own, which pushes filters down.

    Raises InvalidInput that names what Spark's scan cannot do (some types and promotions, defaults of added columns,
    files with name mappings, keys, or rows of later snapshots): read such a table with `format("ducklake")`.
    """
    with Lake.open(catalog, metadata_schema=metadataSchema, storage=storage) as lake:
        found = lake.table(table, versionAsOf)
        version, snapshot = found.version, found.snapshot.snapshot_id
        chosen = version.columns if columns is None else tuple(find_column(version, [name]) for name in columns)
        request = RowRequest.of(version, snapshot, chosen, None)
        listing = list_table(lake.database, version, request, found.snapshot)
        files = read_footers(lake.storage, listing.files, chosen)
        reasons = [*unfit_columns(chosen), *_reasons(files, snapshot)]
        if reasons:
            raise _refusal(version.qualified_name, reasons)
        frames = list(_scans(spark, lake.storage, files, chosen, snapshot))
    inlined = read_rows(lake.storage, Listing((), listing.inlined), request)
    if inlined.num_rows or not frames:
        frames.append(_inlined(spark, inlined, chosen))
    return reduce(DataFrame.union, frames)


# -------------------------------------------------------------------------------------------- refusing


def _refusal(table: str, reasons: Sequence[str]) -> InvalidInput:
    more = f"; and {len(reasons) - _SHOWN_REASONS} more" if len(reasons) > _SHOWN_REASONS else ""
    return InvalidInput(
        f"table '{table}' cannot be read by Spark's own scan, read it with format(\"ducklake\"): "
        f"{'; '.join(reasons[:_SHOWN_REASONS])}{more}",
        reasons=reasons,
    )


def _reasons(files: Sequence[NativeFile], snapshot: SnapshotId) -> Iterator[str]:
    """Yield what Spark's scan would not read of files just as we do."""
    for one in files:
        yield from one.reasons
        if (one.file.partial_max or 0) > snapshot:
            yield f"file '{one.file.path}' has rows of later snapshots"
    for one in unnamed([one for one in files if _has_deletes(one.file)]):
        yield f"file '{one.file.path}' has deleted rows, and its name is not its own"


def _has_deletes(file: DataFile) -> bool:
    return bool(file.delete_files or file.inlined_deletes)


# --------------------------------------------------------------------------------------------- reading


def _scans(
    spark: SparkSession, storage: Storage, files: Sequence[NativeFile], columns: Sequence[Column], snapshot: SnapshotId
) -> Iterator[DataFrame]:
    """Yield frames for the files that call the columns the same: of those without deleted rows, and of the others."""
    schema = spark_schema(columns)
    for group in groups_of([one for one in files if not _has_deletes(one.file)], by_place=False):
        yield scan_files(spark, group, schema).selectExpr(*named_columns(schema))
    for group in groups_of([one for one in files if _has_deletes(one.file)]):
        deleted = _deleted(storage, group.files, snapshot)
        scan = scan_files(spark, group, schema)
        if deleted:
            scan = join_marks(spark, scan, group, deleted, "left_anti")
        yield scan.selectExpr(*named_columns(schema))


def _deleted(storage: Storage, files: Sequence[NativeFile], snapshot: SnapshotId) -> list[MarkedRows]:
    """Return the deleted rows of files."""
    with ThreadPoolExecutor(FOOTER_READERS) as readers:
        found = list(readers.map(lambda one: dropped_positions(storage, one.file, snapshot), files))
    pairs = zip(files, found, strict=True)
    deleted = [(file, positions) for file, positions in pairs if positions is not None and len(positions)]
    return [MarkedRows(file, positions, np.full(len(positions), snapshot)) for file, positions in deleted]


def _inlined(spark: SparkSession, rows: pa.Table, columns: Sequence[Column]) -> DataFrame:
    batches = SparkBatches.of(columns)
    schema = arrow_schema(columns)
    converted = [batches.convert(batch) for batch in rows.cast(schema).to_batches()]
    return spark.createDataFrame(pa.Table.from_batches(converted, batches.schema), spark_schema(columns))
