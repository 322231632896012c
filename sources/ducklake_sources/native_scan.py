"""A table by Spark's own Parquet scan: rows never pass through Python. Runs on the driver, in the user's session.

It reads the footer of every file first, and refuses whatever Spark's reader would not read just as we do. Deleted rows
are taken out by an anti-join on their positions; inlined rows are added from the driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput, UnreadableFile
from ducklake_core.files.field_match import Constant, Found, Source, field_id, match_fields
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile, SnapshotId
from ducklake_core.plan.definition import find_column
from ducklake_core.scan import Listing, dropped_positions, list_table
from ducklake_core.spec.types import arrow_schema
from ducklake_sources.spark_schema import SparkBatches, spark_schema

# Types whose Parquet forms Spark's reader does not read, or not as the values that they are.
_UNFIT = frozenset(
    {"int128", "uint128", "time", "time_ns", "timetz", "timestamp_s", "timestamp_ns", "interval", "uuid", "geometry"}
)
_FOOTER_READERS = 16
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
_GLOB_CHARACTERS = frozenset("*?[]{}\\")
_SHOWN_REASONS = 5
_FIELD_ID = "parquet.field.id"
_OPTIONS = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "true",
    "datetimeRebaseMode": "CORRECTED",
    "mergeSchema": "false",
}


def native_table(
    spark: SparkSession,
    catalog: str,
    table: str,
    versionAsOf: int | None = None,  # noqa: N803 # as the option of format("ducklake") is called
    columns: Sequence[str] | None = None,
    metadataSchema: str | None = None,  # noqa: N803 # see above
) -> DataFrame:
    """Return a table at a snapshot, by default the newest, as a scan of Spark's own, which pushes filters down.

    Raises InvalidInput that names what Spark's scan cannot do (some types and promotions, defaults of added columns,
    files with name mappings, keys, or rows of later snapshots): read such a table with `format("ducklake")`.
    """
    with Lake.open(catalog, metadata_schema=metadataSchema) as lake:
        found = lake.table(table, versionAsOf)
        version, snapshot = found.version, found.snapshot.snapshot_id
        chosen = version.columns if columns is None else tuple(find_column(version, [name]) for name in columns)
        listing = list_table(lake.database, version, snapshot, chosen, None)
        reasons = list(_reasons(lake.storage, listing, chosen, snapshot))
        if reasons:
            more = f"; and {len(reasons) - _SHOWN_REASONS} more" if len(reasons) > _SHOWN_REASONS else ""
            raise InvalidInput(
                f"table '{version.qualified_name}' cannot be read by Spark's own scan, read it with"
                f' format("ducklake"): {"; ".join(reasons[:_SHOWN_REASONS])}{more}',
                reasons=reasons,
            )
        return _frame(spark, lake.storage, listing, chosen, snapshot)


# -------------------------------------------------------------------------------------------- refusing


def _reasons(storage: Storage, listing: Listing, columns: Sequence[Column], snapshot: SnapshotId) -> Iterator[str]:
    """Yield what Spark's scan would not read just as we do."""
    for column in columns:
        for node in column.walk():
            if node.type in _UNFIT:
                yield f"column '{column.name}' has type '{node.type}'"
    names = Counter(_name(file) for file in listing.files)
    for file in listing.files:
        yield from _reasons_of_file(file, snapshot, is_unique=names[_name(file)] == 1)
    plain = [file for file in listing.files if file.encryption_key is None and file.mapping is None]
    with ThreadPoolExecutor(_FOOTER_READERS) as readers:
        for reasons in readers.map(lambda file: _reasons_of_footer(storage, file, columns), plain):
            yield from reasons


def _reasons_of_file(file: DataFile, snapshot: SnapshotId, *, is_unique: bool) -> Iterator[str]:
    if file.mapping is not None:
        yield f"file '{file.path}' has a name mapping"
    if file.encryption_key is not None:
        yield f"file '{file.path}' is encrypted"
    if (file.partial_max or 0) > snapshot:
        yield f"file '{file.path}' has rows of later snapshots"
    if set(file.path) & _GLOB_CHARACTERS:
        yield f"file '{file.path}' has a character in its path that Spark takes for a pattern"
    has_deletes = bool(file.delete_files or file.inlined_deletes)
    if has_deletes and not (is_unique and set(_name(file)) <= _NAME_CHARACTERS):
        yield f"file '{file.path}' has deleted rows, and its name is not its own"


def _reasons_of_footer(storage: Storage, file: DataFile, columns: Sequence[Column]) -> list[str]:
    try:
        with storage.open_input(file.path) as source:
            parquet = pq.ParquetFile(source)
            schema, leaves = parquet.schema_arrow, parquet.schema
    except (OSError, pa.ArrowException) as error:
        raise UnreadableFile(f"cannot read data file '{file.path}': {error}", path=file.path) from error
    fields = list(schema)
    if any(leaves.column(index).physical_type == "INT96" for index in range(len(leaves))):
        return [f"file '{file.path}' has times of the old form INT96"]
    if not any(field_id(found) is not None for found in fields):
        return [f"file '{file.path}' has no field ids"]
    return [
        f"column '{column.name}' has another type or a default in file '{file.path}'"
        for column, source in zip(columns, match_fields(fields, columns), strict=True)
        if not _is_plain(source)
    ]


def _is_plain(source: Source) -> bool:
    """Tell whether a column has the table's type in the file, or is missing there and null."""
    match source:
        case Found(is_unchanged=is_unchanged):
            return is_unchanged
        case Constant(text=text):
            return text is None


def _name(file: DataFile) -> str:
    return PurePosixPath(file.path).name


# --------------------------------------------------------------------------------------------- reading


def _frame(
    spark: SparkSession, storage: Storage, listing: Listing, columns: Sequence[Column], snapshot: SnapshotId
) -> DataFrame:
    whole = [file for file in listing.files if not (file.delete_files or file.inlined_deletes)]
    others = [file for file in listing.files if file.delete_files or file.inlined_deletes]
    frames = [_scan(spark, whole, columns)] if whole else []
    if others:
        deleted = F.broadcast(spark.createDataFrame(_deleted(storage, others, snapshot)))
        scan = _scan(spark, others, columns)
        is_same = (scan["_metadata.file_name"] == deleted["name"]) & (
            scan["_metadata.row_index"] == deleted["position"]
        )
        frames.append(scan.join(deleted, is_same, "left_anti"))
    inlined = [part.rows for part in listing.inlined if part.rows.num_rows]
    if inlined or not frames:
        frames.append(_inlined(spark, inlined, columns))
    return reduce(DataFrame.union, frames)


def _scan(spark: SparkSession, files: Sequence[DataFile], columns: Sequence[Column]) -> DataFrame:
    schema = T.StructType(
        [_identified(field, column) for field, column in zip(spark_schema(columns).fields, columns, strict=True)]
    )
    return spark.read.options(**_OPTIONS).schema(schema).parquet(*(file.path for file in files))


def _identified(field: T.StructField, column: Column) -> T.StructField:
    """Return the field with the ids of all its nodes."""
    return T.StructField(field.name, _with_ids(field.dataType, column), True, {_FIELD_ID: int(column.column_id)})  # noqa: FBT003 # Spark's signature


def _with_ids(type_: T.DataType, column: Column) -> T.DataType:
    match type_:
        case T.StructType():
            return T.StructType([_identified(f, c) for f, c in zip(type_.fields, column.children, strict=True)])
        case T.ArrayType():
            return T.ArrayType(_with_ids(type_.elementType, column.children[0]))
        case T.MapType():
            key, value = column.children
            return T.MapType(_with_ids(type_.keyType, key), _with_ids(type_.valueType, value))
        case _:
            return type_


def _deleted(storage: Storage, files: Sequence[DataFile], snapshot: SnapshotId) -> pa.Table:
    """Return the deleted positions of files, by the files' names."""
    with ThreadPoolExecutor(_FOOTER_READERS) as readers:
        found = list(readers.map(lambda file: dropped_positions(storage, file, snapshot), files))
    positions = [np.empty(0, np.int64) if one is None else one for one in found]
    names = pa.array([_name(file) for file in files])
    indices = np.repeat(np.arange(len(files)), [len(one) for one in positions])
    return pa.table({"name": names.take(pa.array(indices)), "position": np.concatenate(positions)})


def _inlined(spark: SparkSession, rows: Sequence[pa.Table], columns: Sequence[Column]) -> DataFrame:
    batches = SparkBatches.of(columns)
    schema = arrow_schema(columns)
    converted = [batches.convert(batch) for table in rows for batch in table.cast(schema).to_batches()]
    return spark.createDataFrame(pa.Table.from_batches(converted, batches.schema), spark_schema(columns))
