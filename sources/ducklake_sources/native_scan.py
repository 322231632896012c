"""A table by Spark's own Parquet scan: rows never pass through Python. Runs on the driver, in the user's session.

It reads the footer of every file first, and refuses whatever Spark's reader would not read just as we do. Deleted rows
are taken out by an anti-join on their positions; inlined rows are added from the driver.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput, UnreadableFile
from ducklake_core.files.delete_files import dropped_positions
from ducklake_core.files.field_match import Constant, Found, Source, field_id, match_fields
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile, SnapshotId
from ducklake_core.plan.definition import find_column
from ducklake_core.read.listing import Listing, list_table
from ducklake_core.read.request import RowRequest
from ducklake_core.read.rows import read_rows
from ducklake_core.spec.names import fold
from ducklake_core.spec.paths import hadoop_storage
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
_METADATA = "_metadata"  # Spark's hidden column, which says where a row was
# Dates of before 1582 are what they are; and each scan knows its schema.
_OPTIONS = {"datetimeRebaseMode": "CORRECTED", "mergeSchema": "false"}


@dataclass(frozen=True, slots=True)
class _Footer:
    """What a file calls the columns (None: it lacks one, which is null), or the reasons why Spark cannot read it."""

    file: DataFile
    names: tuple[str | None, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def has_deletes(self) -> bool:
        return bool(self.file.delete_files or self.file.inlined_deletes)


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
        footers = _read_footers(lake.storage, listing.files, chosen)
        reasons = [*_reasons(listing, chosen, snapshot), *(reason for footer in footers for reason in footer.reasons)]
        if reasons:
            raise _refusal(version.qualified_name, reasons)
        frames = list(_scans(spark, lake.storage, footers, chosen, snapshot))
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


def _reasons(listing: Listing, columns: Sequence[Column], snapshot: SnapshotId) -> Iterator[str]:
    """Yield what Spark's scan would not read just as we do, as far as the catalog tells."""
    for column in columns:
        for node in column.walk():
            if node.type in _UNFIT:
                yield f"column '{column.name}' has type '{node.type}'"
        if fold(column.name) == _METADATA:
            yield f"column '{column.name}' has the name of Spark's own"
    names = Counter(_name(file) for file in listing.files)
    for file in listing.files:
        yield from _reasons_of_file(file, snapshot, is_unique=names[_name(file)] == 1)


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


def _read_footers(storage: Storage, files: Sequence[DataFile], columns: Sequence[Column]) -> list[_Footer]:
    plain = [file for file in files if file.encryption_key is None and file.mapping is None]
    with ThreadPoolExecutor(_FOOTER_READERS) as readers:
        return list(readers.map(lambda file: _read_footer(storage, file, columns), plain))


def _read_footer(storage: Storage, file: DataFile, columns: Sequence[Column]) -> _Footer:
    try:
        with storage.open_input(file.path) as source:
            parquet = pq.ParquetFile(source)
            fields, leaves = list(parquet.schema_arrow), parquet.schema
    except (OSError, pa.ArrowException) as error:
        raise UnreadableFile(f"cannot read data file '{file.path}': {error}", path=file.path) from error
    if any(leaves.column(index).physical_type == "INT96" for index in range(len(leaves))):
        return _Footer(file, reasons=(f"file '{file.path}' has times of the old form INT96",))
    if not any(field_id(found) is not None for found in fields):
        return _Footer(file, reasons=(f"file '{file.path}' has no field ids",))
    sources = match_fields(fields, columns)
    reasons = [
        f"column '{column.name}' has another type or a default in file '{file.path}'"
        for column, source in zip(columns, sources, strict=True)
        if not _is_plain(source)
    ]
    names = tuple(fields[source.index].name if isinstance(source, Found) else None for source in sources)
    if not any(name is not None for name in names):
        reasons.append(f"file '{file.path}' has none of the columns")
    return _Footer(file, names, tuple(reasons))


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


def _scans(
    spark: SparkSession, storage: Storage, footers: Sequence[_Footer], columns: Sequence[Column], snapshot: SnapshotId
) -> Iterator[DataFrame]:
    """Yield a frame for the files that call the columns the same, and another for those of them with deleted rows.

    Columns are found by the names that the files have: Spark finds them by ids only if the whole session is set so.
    """
    groups: defaultdict[tuple[tuple[str | None, ...], bool], list[DataFile]] = defaultdict(list)
    for footer in footers:
        groups[footer.names, footer.has_deletes].append(footer.file)
    for (names, has_deletes), files in groups.items():
        named = list(zip(names, spark_schema(columns).fields, strict=True))
        present = T.StructType([T.StructField(name, field.dataType) for name, field in named if name is not None])
        scan = spark.read.options(**_OPTIONS).schema(present).parquet(*(hadoop_storage(file.path) for file in files))
        if has_deletes:
            scan = _without_deleted(scan, spark.createDataFrame(_deleted(storage, files, snapshot)))
        yield scan.select([_picked(name, field) for name, field in named])


def _without_deleted(scan: DataFrame, deleted: DataFrame) -> DataFrame:
    is_file = scan[f"{_METADATA}.file_name"] == deleted["name"]
    is_row = scan[f"{_METADATA}.row_index"] == deleted["position"]
    return scan.join(F.broadcast(deleted), is_file & is_row, "left_anti")


def _picked(name: str | None, field: T.StructField) -> SparkColumn:
    value = F.lit(None).cast(field.dataType) if name is None else F.col("`{}`".format(name.replace("`", "``")))
    return value.alias(field.name)


def _deleted(storage: Storage, files: Sequence[DataFile], snapshot: SnapshotId) -> pa.Table:
    """Return the deleted positions of files, by the files' names."""
    with ThreadPoolExecutor(_FOOTER_READERS) as readers:
        found = list(readers.map(lambda file: dropped_positions(storage, file, snapshot), files))
    positions = [np.empty(0, np.int64) if one is None else one for one in found]
    names = pa.array([_name(file) for file in files])
    indices = np.repeat(np.arange(len(files)), [len(one) for one in positions])
    return pa.table({"name": names.take(pa.array(indices)), "position": np.concatenate(positions)})


def _inlined(spark: SparkSession, rows: pa.Table, columns: Sequence[Column]) -> DataFrame:
    batches = SparkBatches.of(columns)
    schema = arrow_schema(columns)
    converted = [batches.convert(batch) for batch in rows.cast(schema).to_batches()]
    return spark.createDataFrame(pa.Table.from_batches(converted, batches.schema), spark_schema(columns))
