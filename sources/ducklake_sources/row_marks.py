"""Marks on rows of files, by which Spark's own scan finds or leaves out rows: a bitmap for each few thousand rows.

Made on the driver, of positions; joined to a scan by the place of each row, which Spark tells in `_metadata`. Such a
join looks once into a small table of numbers for a row, where one by each position would hash them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core.spec.paths import hadoop_storage
from ducklake_core.spec.types import ROW_ID_NAME
from ducklake_sources.native_files import METADATA, FileGroup, NativeFile

_CHUNK_BITS, _WORDS = 12, 64  # rows of a chunk, as a power of two; words of 64 bits that they take
_CHUNK_ROWS = 1 << _CHUNK_BITS
_CHUNKS_PER_SIZE = 1 << 24  # a key is a file's size and the number of a chunk, in one number
# Dates of before 1582 are what they are; and each scan knows its schema.
_OPTIONS = {"datetimeRebaseMode": "CORRECTED", "mergeSchema": "false"}
_WORD = f"CAST(shiftright(row, 6) & {_WORDS - 1} AS INT)"
_BIT = "CAST(row & 63 AS INT)"
_KEY = f"file * {_CHUNKS_PER_SIZE} + shiftright(row, {_CHUNK_BITS})"

# Of a row and marks of its chunk, after the join: whether it is marked, its snapshot, and what has happened to it.
IS_TOLD = f"told IS NULL OR getbit(get(told, {_WORD}), {_BIT}) = 1"
_RANK = f"get(ranks, {_WORD}) + bit_count(get(told, {_WORD}) & ~shiftleft(-1L, {_BIT}))"
VERSION = f"coalesce(version, get(versions, {_RANK}))"
_IS_UPDATE = f"coalesce(getbit(get(updated, {_WORD}), {_BIT}) = 1, false)"
CHANGE_TYPE = (
    f"if(is_delete, if({_IS_UPDATE}, 'update_preimage', 'delete'), if({_IS_UPDATE}, 'update_postimage', 'insert'))"
)
ROW_ID = "coalesce(row_id, row_id_start + row)"


@dataclass(frozen=True, slots=True, eq=False)
class MarkedRows:
    """Rows of a file at sorted positions that were inserted, or deleted, and which snapshot did it to each.

    `positions` None: all rows, and there is one snapshot for all. `are_updates` None: none is half of an update.
    """

    file: NativeFile
    positions: np.ndarray | None
    snapshots: np.ndarray
    are_updates: np.ndarray | None = None
    is_delete: bool = False


def scan_files(spark: SparkSession, group: FileGroup, schema: T.StructType, *, with_row_ids: bool = False) -> DataFrame:
    """Return the rows of files by Spark's own scan, columns called by their places.

    Behind them `file` and `row`, where each row was; and `row_id`, null in files that have none.
    Columns are found by the names that the files have: Spark finds them by ids only if the whole session is set so.
    """
    named = list(zip(group.names, schema.fields, strict=True))
    present = [T.StructField(name, field.dataType) for name, field in named if name is not None]
    has_row_ids = with_row_ids and any(file.has_row_ids for file in group.files)
    present += [T.StructField(ROW_ID_NAME, T.LongType())] if has_row_ids else []
    paths = (hadoop_storage(file.file.path) for file in group.files)
    scan = spark.read.options(**_OPTIONS).schema(T.StructType(present)).parquet(*paths)
    columns = [f"{_picked(name, field.dataType)} AS c{i}" for i, (name, field) in enumerate(named)]
    columns += [f"{_place(group)} AS file", f"{METADATA}.row_index AS row"]
    if with_row_ids:
        columns.append(f"{_picked(ROW_ID_NAME if has_row_ids else None, T.LongType())} AS row_id")
    return scan.selectExpr(*columns)


def join_marks(
    spark: SparkSession, scan: DataFrame, group: FileGroup, marked: Sequence[MarkedRows], how: str
) -> DataFrame:
    """Join rows of a group's scan with the marks on them: `inner` for those that are marked, `left_anti` for others."""
    marks = spark.createDataFrame(_mark_table(marked, group.name_parts))
    is_place = f"file_name = file AND chunk = shiftright(row, {_CHUNK_BITS})"
    is_place = is_place if group.name_parts else f"key = {_KEY}"
    return scan.join(F.broadcast(marks), F.expr(f"{is_place} AND ({IS_TOLD})"), how)


def named_columns(schema: T.StructType) -> list[str]:
    """Return the columns of a scan by the names that they have in the table, as SQL."""
    return [f"c{i} AS {_quoted(field.name)}" for i, field in enumerate(schema.fields)]


def _place(group: FileGroup) -> str:
    """Return what tells the file of a row, as SQL: numbers are compared sooner than texts, and short ones than long."""
    match group.name_parts:
        case 0:
            return f"{METADATA}.file_size"
        case 1:
            return f"{METADATA}.file_name"
        case parts:
            return f"substring_index({METADATA}.file_path, '/', -{parts})"


def _picked(name: str | None, type_: T.DataType) -> str:
    return f"CAST(NULL AS {_sql_type(type_)})" if name is None else _quoted(name)


def _sql_type(type_: T.DataType) -> str:
    """Return a type as SQL has it: as `simpleString` does, but for names of fields, which may be any."""
    match type_:
        case T.StructType(fields=fields):
            return f"STRUCT<{', '.join(f'{_quoted(field.name)}: {_sql_type(field.dataType)}' for field in fields)}>"
        case T.ArrayType(elementType=element):
            return f"ARRAY<{_sql_type(element)}>"
        case T.MapType(keyType=key, valueType=value):
            return f"MAP<{_sql_type(key)}, {_sql_type(value)}>"
        case _:
            return type_.simpleString()


def _quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))


# --------------------------------------------------------------------------------------------- the marks


def _mark_table(marked: Sequence[MarkedRows], name_parts: int) -> pa.Table:
    return pa.concat_tables(_with_place(one, _marks_of(one), name_parts) for one in marked)


def _with_place(marked: MarkedRows, marks: pa.Table, name_parts: int) -> pa.Table:
    """Add by what a scan knows the file and the chunk, and what is the same for the whole file."""
    file, rows = marked.file, marks.num_rows
    if name_parts == 0:
        chunks = marks.column("chunk").to_numpy() + file.size_bytes * _CHUNKS_PER_SIZE
        marks = marks.set_column(0, "key", pa.array(chunks, pa.int64()))
    else:
        marks = marks.append_column("file_name", pa.repeat(file.name(name_parts), rows))
    marks = marks.append_column("is_delete", pa.repeat(marked.is_delete, rows))
    start = file.file.row_id_start
    return marks.append_column("row_id_start", pa.repeat(pa.scalar(start, pa.int64()), rows))


def _marks_of(marked: MarkedRows) -> pa.Table:
    if marked.positions is None:
        chunks = np.arange(-(-marked.file.rows // _CHUNK_ROWS), dtype=np.int64)
        return _all_marked(chunks, int(marked.snapshots[0]))
    positions = marked.positions
    chunks, starts = np.unique(positions >> _CHUNK_BITS, return_index=True)
    counts = np.diff(starts, append=len(positions))
    places = np.repeat(np.arange(len(chunks)), counts) * _CHUNK_ROWS + (positions & (_CHUNK_ROWS - 1))
    told = _words(places, len(chunks))
    updated = None if marked.are_updates is None else _words(places[marked.are_updates], len(chunks))
    return _some_marked(chunks, told, updated, marked.snapshots, starts, counts)


def _all_marked(chunks: np.ndarray, snapshot: int) -> pa.Table:
    none = pa.nulls(len(chunks))
    lists = [none.cast(_SCHEMA.field(name).type) for name in ("versions", "told", "ranks", "updated")]
    return pa.Table.from_arrays([chunks, pa.repeat(snapshot, len(chunks)), *lists], schema=_SCHEMA)


def _some_marked(
    chunks: np.ndarray,
    told: np.ndarray,
    updated: np.ndarray | None,
    snapshots: np.ndarray,
    starts: np.ndarray,
    counts: np.ndarray,
) -> pa.Table:
    """Return marks of chunks; a chunk has the snapshots of its rows only if they are not all the same."""
    versions = np.minimum.reduceat(snapshots, starts)
    is_one = versions == np.maximum.reduceat(snapshots, starts)
    bits = np.bitwise_count(told.view(np.uint64)).astype(np.int32)
    ranks = np.cumsum(bits, axis=1, dtype=np.int32) - bits
    every = np.full(len(chunks), _WORDS)
    arrays = [
        pa.array(chunks),
        pa.array(versions, mask=~is_one),
        _lists(snapshots[np.repeat(~is_one, counts)], np.where(is_one, 0, counts), is_one),
        _lists(told.ravel(), every),
        _lists(ranks[~is_one].ravel(), np.where(is_one, 0, _WORDS), is_one),
        pa.nulls(len(chunks), _WORD_LISTS) if updated is None else _lists(updated.ravel(), every),
    ]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _words(places: np.ndarray, chunks: int) -> np.ndarray:
    """Return bits of chunks as words, in each of which the first row is the lowest bit."""
    bits = np.zeros(chunks * _CHUNK_ROWS, np.uint8)
    bits[places] = 1
    return np.packbits(bits, bitorder="little").view("<i8").reshape(chunks, _WORDS)


def _lists(values: np.ndarray, lengths: np.ndarray, are_null: np.ndarray | None = None) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = None if are_null is None else pa.array(are_null)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), mask=mask)


_WORD_LISTS = pa.list_(pa.int64())
_SCHEMA = pa.schema(
    {
        "chunk": pa.int64(),
        "version": pa.int64(),
        "versions": _WORD_LISTS,
        "told": _WORD_LISTS,
        "ranks": pa.list_(pa.int32()),
        "updated": _WORD_LISTS,
    }
)
