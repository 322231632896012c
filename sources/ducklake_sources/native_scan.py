"""A table by Spark's own Parquet scan: rows never pass through Python. Runs on the driver, in the user's session.

It reads the footer of every file first, and refuses whatever Spark's reader would not read just as we do, or leaves it
to our own reader. Deleted rows are taken out by marks on their places; inlined rows are added from the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Lake, Table
from ducklake_core.errors import InvalidInput
from ducklake_core.files.delete_files import dropped_positions
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile, SnapshotId, TableVersion
from ducklake_core.read.listing import Listing, list_table
from ducklake_core.read.parts import FileRows
from ducklake_core.read.request import RowRequest
from ducklake_core.read.rows import read_rows
from ducklake_core.read.slice_plan import share_parts
from ducklake_core.read.slices import Slice
from ducklake_sources.native_files import (
    FOOTER_READERS,
    NativeFile,
    groups_of,
    may_overflow,
    read_footers,
    unfit_columns,
    unnamed,
)
from ducklake_sources.row_marks import MarkedRows, join_marks, named_columns, scan_files
from ducklake_sources.spark_schema import SparkBatches, local_frame, spark_schema
from ducklake_sources.table_reader import slice_rows

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
    files with name mappings, keys, or rows of later snapshots): `read_table` reads such a table.
    """
    with Lake.open(catalog, metadata_schema=metadataSchema, storage=storage) as lake:
        scan = _TableScan.of(lake.table(table, versionAsOf), lake, columns)
        reasons = [*unfit_columns(scan.request.columns), *(reason for _, reason in _unfit(scan.files, scan.snapshot))]
        if reasons:
            raise _refusal(scan.request.table, reasons)
        return scan.frame(spark, frozenset())


def read_table(
    spark: SparkSession,
    catalog: str,
    table: str,
    versionAsOf: int | None = None,  # noqa: N803 # as the option of format("ducklake") is called
    columns: Sequence[str] | None = None,
    metadataSchema: str | None = None,  # noqa: N803 # see above
    storage: Mapping[str, object] | None = None,
) -> DataFrame:
    """Return a table at a snapshot, by default the newest: each file by Spark's own scan if that reads it as we do.

    The other files are read by our own reader on executors, as `format("ducklake")` reads them. It refuses nothing.
    """
    with Lake.open(catalog, metadata_schema=metadataSchema, storage=storage) as lake:
        scan = _TableScan.of(lake.table(table, versionAsOf), lake, columns)
        chosen = scan.request.columns
        if not chosen or any(unfit_columns(chosen)) or may_overflow(chosen):
            unfit = [one.file for one in scan.files]
        else:
            unfit = [one.file for one, _ in _unfit(scan.files, scan.snapshot)]
        return scan.frame(spark, frozenset(file.data_file_id for file in unfit))


@dataclass(frozen=True, slots=True)
class _TableScan:
    """What a table has at a snapshot, and what Spark's scan would find in its files."""

    storage: Storage
    version: TableVersion
    request: RowRequest
    listing: Listing
    files: Sequence[NativeFile]

    @classmethod
    def of(cls, table: Table, lake: Lake, columns: Sequence[str] | None) -> _TableScan:
        version, chosen = table.version, table.projection(columns)
        request = RowRequest.of(version, table.snapshot.snapshot_id, chosen, None)
        listing = list_table(lake.database, version, request, table.snapshot)
        return cls(lake.storage, version, request, listing, read_footers(lake.storage, listing.files, chosen))

    @property
    def snapshot(self) -> SnapshotId:
        return self.request.snapshot

    def frame(self, spark: SparkSession, unfit: AbstractSet[int]) -> DataFrame:
        """Return all rows. `unfit`: ids of the files that our own reader reads."""
        columns = self.request.columns
        fit = [one for one in self.files if one.file.data_file_id not in unfit]
        frames = list(_scans(spark, self.storage, fit, columns, self.snapshot))
        others = [FileRows(one.file) for one in self.files if one.file.data_file_id in unfit]
        if others:
            slices = share_parts(self.storage, self.version, self.request, others)
            frames.append(_by_our_reader(spark, slices, columns))
        inlined = read_rows(self.storage, Listing((), self.listing.inlined), self.request)
        if inlined.num_rows or not frames:
            frames.append(_inlined(spark, inlined, columns))
        return reduce(DataFrame.union, frames)


# -------------------------------------------------------------------------------------------- refusing


def _refusal(table: str, reasons: Sequence[str]) -> InvalidInput:
    more = f"; and {len(reasons) - _SHOWN_REASONS} more" if len(reasons) > _SHOWN_REASONS else ""
    return InvalidInput(
        f"table '{table}' cannot be read by Spark's own scan, read it with read_table: "
        f"{'; '.join(reasons[:_SHOWN_REASONS])}{more}",
        reasons=reasons,
    )


def _unfit(files: Sequence[NativeFile], snapshot: SnapshotId) -> Iterator[tuple[NativeFile, str]]:
    """Yield the files that Spark's scan would not read just as we do, and why."""
    with_deletes = []
    for one in files:
        yield from ((one, reason) for reason in one.reasons)
        if (one.file.partial_max or 0) > snapshot:
            yield one, f"file '{one.file.path}' has rows of later snapshots"
        elif _has_deletes(one.file) and not one.reasons:
            with_deletes.append(one)
    for one in unnamed(with_deletes):
        yield one, f"file '{one.file.path}' has deleted rows, and its name is not its own"


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


def _by_our_reader(spark: SparkSession, slices: Sequence[Slice], columns: Sequence[Column]) -> DataFrame:
    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for record_batch in numbers:
            for number in record_batch.column(0).to_pylist():
                yield from slice_rows(slices[number], columns)

    return spark.range(0, len(slices), 1, len(slices)).mapInArrow(read, spark_schema(columns))


def _inlined(spark: SparkSession, rows: pa.Table, columns: Sequence[Column]) -> DataFrame:
    batches = SparkBatches.of(columns)
    converted = [batches.convert(batch) for batch in rows.to_batches()]
    return local_frame(spark, pa.Table.from_batches(converted, batches.schema), spark_schema(columns))
