"""Large batches by Spark's own Parquet writer: rows never leave the JVM. Runs on the driver, classic client only.

Spark can give a field id to columns and struct fields, not to elements of lists and maps, knows only some of our
partitions, and no sort orders: `can_write_natively` says where it will do. Its job commit puts the files of those tasks
that succeeded, and no others, into a directory of this batch alone. On S3 that must not be done by renames, which are
copies there: only a session that commits by S3A's committers writes so.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention
from uuid6 import uuid7

from ducklake_core.files.footer_facts import read_file_facts
from ducklake_core.files.parquet_writer import FileLayout
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.model import Column, NewDataFile
from ducklake_core.spec.names import fold
from ducklake_core.spec.paths import hadoop_storage
from ducklake_core.spec.types import type_text
from ducklake_core.spec.write_options import WriteOptions
from ducklake_sinks.native_columns import NO_UTF8, NativeColumns
from ducklake_sinks.native_partitions import can_group, group_names
from ducklake_sinks.shared_storage import CountedRows
from ducklake_sinks.spark_types import lake_schema
from ducklake_sinks.unwritable import refuse_unwritable

_UNFIT = frozenset({"list", "map", "time", "interval"})
_CODECS = frozenset({"snappy", "zstd", "gzip", "none"})  # which Spark calls the same
# What must hold of the session, or old dates and decimals are written in Hive's way.
_NEEDED = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
# Of the jar spark-hadoop-cloud: uploads of tasks that succeeded appear when the job commits, and nothing is renamed.
PROTOCOL_SETTING, S3_PROTOCOL = (
    "spark.sql.sources.commitProtocolClass",
    "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
)
# Before 4.3 Spark writes INT96, which has no time zone: DuckDB takes such times for those of its own session's zone.
# Spark 4.1 heeds no option of the write. It stays set, as batches of one session may be written at once.
_TIMESTAMPS = ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
# Where attempts of tasks write until they are committed. One that Spark gave up may go on there after the job's commit.
_ATTEMPTS = "_temporary"
_GUESSED_TEXT_BYTES = 32
_FOOTER_READERS = 8


def can_write_natively(session: SparkSession, schema: T.StructType, layout: FileLayout, storage: Storage) -> bool:
    """Tell whether Spark's writer makes files that are just as ours would be."""
    return (
        hasattr(session, "_jsparkSession")
        and _is_plain(layout)
        and _are_same(schema, layout.columns)
        and all(str(session.conf.get(name)).upper() == value.upper() for name, value in _NEEDED.items())
        and takes_files_by_spark(session, storage)
    )


def takes_files_by_spark(session: SparkSession, storage: Storage) -> bool:
    """Tell whether Spark itself puts files into the storage, without renames where these are copies."""
    if storage.is_local:
        return True
    is_s3 = hadoop_storage(storage.root).startswith("s3a://")
    return is_s3 and not storage.options.needs_s3fs and session.conf.get(PROTOCOL_SETTING) == S3_PROTOCOL


class InvalidTextFound(Exception):
    """A row has a text that is no UTF-8: nothing was written."""


def write_natively(
    frame: DataFrame, layout: FileLayout, storage: Storage, columns: NativeColumns
) -> tuple[NewDataFile, ...]:
    """Write a batch and return its files; on an error, and of a batch without rows, nothing is left.

    Raises UnwritableFile when the storage does not take them or is not the executors' too, and InvalidTextFound, which
    says neither where nor what: Spark knows no numbers of rows.
    """
    directory = f"{layout.directory}ducklake-{uuid7()}/"
    counted = CountedRows(frame)
    with WrittenFiles(storage, [directory]) as written:
        try:
            _write(counted.frame, layout, directory, columns)
        except (PySparkException, Py4JError) as error:
            refuse_unwritable(storage, error)
            raise
        found = sorted(file.path for file in storage.walk(directory))
        files = _read_facts(storage, layout, found)
        counted.refuse_unshared_rows(storage, files)
        if not files:
            written.remove()
        kept = {layout.directory + file.path for file in files}
        for path in found if files else ():  # files without rows, and checksums of Hadoop's local filesystem
            if path not in kept:
                storage.remove_quietly(path)
    return files


def native_directories(directory: str, files: Sequence[NewDataFile]) -> set[str]:
    """Return the directories that `write_natively` made for files of a table, each with all that is in it."""
    return {f"{directory}{file.path.partition('/')[0]}/" for file in files}


def _is_plain(layout: FileLayout) -> bool:
    options, default = layout.options, WriteOptions()
    is_sorted = layout.sort_order is not None and options.sort_on_insert
    return (
        can_group(layout.columns, layout.partitioning)
        and not is_sorted
        and options.compression in _CODECS
        and (options.compression_level, options.data_page_version) == (None, default.data_page_version)
        and (options.row_group_rows, options.row_group_bytes) == (default.row_group_rows, None)
        and not options.encrypted
    )


def _are_same(schema: T.StructType, columns: Sequence[Column]) -> bool:
    """Tell whether a frame has just the table's columns, each of its type, and no null can be wrong."""
    texts = {fold(name): text for name, text in lake_schema(schema, ignore_void=True).items()}
    return (
        len(texts) == len(schema.fields) == len(columns)
        and all(column.nulls_allowed and texts.get(fold(column.name)) == type_text(column) for column in columns)
        and not any(node.type in _UNFIT for column in columns for node in column.walk())
    )


def _write(frame: DataFrame, layout: FileLayout, directory: str, columns: NativeColumns) -> None:
    options = {
        "compression": layout.options.compression,
        "maxRecordsPerFile": str(max(1, layout.options.target_file_bytes // _row_bytes(layout.columns))),
        "mapreduce.fileoutputcommitter.algorithm.version": "1",  # only the job's commit publishes files
        "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    }
    frame.sparkSession.conf.set(*_TIMESTAMPS)
    try:
        writer = columns.select(frame, layout).write.options(**options)
        writer.partitionBy(group_names(layout.partitioning)).parquet(_uri(directory))
    except (PySparkException, Py4JError) as error:  # the second where Spark wraps the first in a wait
        if NO_UTF8 in str(error):
            raise InvalidTextFound from error
        raise


def _uri(directory: str) -> str:
    """Return a directory as Spark knows it: not as a URI has it, for Hadoop takes `%20` for the name itself."""
    scheme, separator, path = directory.partition("://")
    if separator and scheme != "file":
        return hadoop_storage(directory)
    return f"file://{Path(path if separator else directory).absolute()}"


def _row_bytes(columns: Sequence[Column]) -> int:
    """Return about how many bytes a row takes before it is compressed."""
    widths = {"boolean": 1, "int8": 1, "int16": 2, "int32": 4, "float32": 4, "date": 4, "varchar": _GUESSED_TEXT_BYTES}
    return sum(widths.get(leaf.type, 8) for column in columns for leaf in column.leaves())


def _read_facts(storage: Storage, layout: FileLayout, found: Sequence[str]) -> tuple[NewDataFile, ...]:
    below = (path.removeprefix(layout.directory) for path in found if path.endswith(".parquet"))
    paths = [path for path in below if path.split("/")[1] != _ATTEMPTS]
    with ThreadPoolExecutor(_FOOTER_READERS) as readers:
        return tuple(f for f in readers.map(partial(read_file_facts, storage, layout), paths) if f.record_count)
