"""Statistics of the leaf columns of a new data file, as texts of the catalog (format §10).

Pure; runs on driver and executors. Slots and sizes come from the Parquet footer, which also counts the empty slots of
lists; bounds and values come from Arrow, because a footer drops or cuts some. The rules are the reference's, observed:
bounds ignore NaN, which has its own flag; texts longer than 256 bytes are cut, and the upper bound is raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ducklake_core.files.nested import reachable_parts
from ducklake_core.model import Column, ColumnStats
from ducklake_core.spec.arrays import plain
from ducklake_core.spec.kinds import UNORDERED, Kind
from ducklake_core.spec.text import to_text

LONGEST_BOUND = 256  # bytes
_FLOATS = (pa.float64(), pa.float32())


@dataclass(frozen=True, slots=True)
class LeafRange:
    """The least and greatest value of one leaf in some rows: an array of both, or of nothing when there is no value."""

    extremes: pa.Array
    value_count: int = 0
    has_nan: bool = False


def leaf_ranges(columns: Sequence[Column], table: pa.Table) -> list[LeafRange]:
    """Return the range of every leaf, in the order of the Parquet file's columns."""
    return [
        _range_of_chunks(chunks, leaf)
        for column in columns
        for leaf, chunks in _leaves(column, table.column(column.name).chunks)
    ]


def merge_ranges(parts: Sequence[Sequence[LeafRange]], columns: Sequence[Column]) -> list[LeafRange]:
    """Return the ranges of several sets of rows together; there must be at least one."""
    leaves = [leaf for column in columns for leaf in column.leaves()]
    return [_merged(list(ranges), leaf) for ranges, leaf in zip(zip(*parts, strict=True), leaves, strict=True)]


def leaf_paths(columns: Sequence[Column]) -> list[str]:
    """Return the Parquet paths of the leaves, in the order of the file's columns."""
    return [path for column in columns for path in _paths(column, column.name)]


def _paths(column: Column, path: str) -> Iterator[str]:
    """Yield the dotted paths of the leaves below a column, as Parquet names them."""
    if not column.is_nested:
        yield path
    for child in column.children:
        between = {"list": ".list.element", "map": f".key_value.{child.name}", "struct": f".{child.name}"}[column.type]
        yield from _paths(child, path + between)


def leaf_values(columns: Sequence[Column], rows: pa.Table) -> Iterator[list[pa.Array]]:
    """Yield the values of every leaf, in the order of the file's columns, without extension types."""
    for column in columns:
        for _, chunks in _leaves(column, rows.column(column.name).chunks):
            yield [plain(values) for values in chunks]


def file_stats(
    columns: Sequence[Column], ranges: Sequence[LeafRange], footer: pq.FileMetaData
) -> tuple[ColumnStats, ...]:
    """Return the statistics of every leaf of a written file."""
    leaves = [leaf for column in columns for leaf in column.leaves()]
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    pairs = enumerate(zip(leaves, ranges, strict=True))
    return tuple(_stats(leaf, found, [group.column(index) for group in groups]) for index, (leaf, found) in pairs)


def _leaves(column: Column, chunks: Sequence[pa.Array]) -> Iterator[tuple[Column, list[pa.Array]]]:
    """Yield the leaves below a column with their values, in depth-first order."""
    if not column.is_nested:
        yield column, list(chunks)
        return
    below = [reachable_parts(chunk) for chunk in chunks]
    for index, child in enumerate(column.children):
        yield from _leaves(child, [parts[index] for parts in below])


def _range_of_chunks(chunks: Sequence[pa.Array], leaf: Column) -> LeafRange:
    if not chunks:
        return LeafRange(pa.array([], pa.null()))
    values = [plain(chunk) for chunk in chunks]
    return _leaf_range(values[0] if len(values) == 1 else pa.chunked_array(values), leaf)


def _leaf_range(values: pa.Array | pa.ChunkedArray, leaf: Column) -> LeafRange:
    """Return the range of values without extension types."""
    value_count = len(values) - values.null_count
    if leaf.kind in UNORDERED:
        return LeafRange(pa.array([], values.type), value_count)
    extremes = _number_extremes(values)
    if extremes is not None:
        return LeafRange(extremes, value_count)
    has_nan = leaf.kind is Kind.FLOAT and bool(pc.any(pc.is_nan(values), min_count=0).as_py())
    if has_nan:
        values = values.filter(pc.invert(pc.is_nan(values)))
    extremes = pc.min_max(values)
    return LeafRange(pa.array([extremes["min"], extremes["max"]], values.type).drop_null(), value_count, has_nan)


def _number_extremes(values: pa.Array | pa.ChunkedArray) -> pa.Array | None:
    """Return the least and the greatest of plain numbers; None for others, and where there is a null or a NaN.

    NumPy has both before Arrow has begun, which counts where few rows have many columns.
    """
    is_plain = isinstance(values, pa.Array) and (pa.types.is_integer(values.type) or values.type in _FLOATS)
    if not is_plain or values.null_count or not len(values):
        return None
    numbers = values.to_numpy()
    extremes = np.array([numbers.min(), numbers.max()])
    return None if np.isnan(extremes[0]) else pa.array(extremes, values.type)  # a NaN is the least of its numbers


def _merged(parts: Sequence[LeafRange], leaf: Column) -> LeafRange:
    if len(parts) == 1:
        return parts[0]
    together = _leaf_range(pa.concat_arrays([part.extremes for part in parts]), leaf)
    value_count = sum(part.value_count for part in parts)
    return LeafRange(together.extremes, value_count, any(part.has_nan for part in parts))


def _stats(leaf: Column, found: LeafRange, chunks: Sequence[pq.ColumnChunkMetaData]) -> ColumnStats:
    lower, upper = bound_texts(found.extremes, leaf)
    return ColumnStats(
        leaf.column_id,
        value_count=found.value_count,
        null_count=sum(chunk.num_values for chunk in chunks) - found.value_count,
        min_value=lower,
        max_value=upper,
        contains_nan=found.has_nan if leaf.kind is Kind.FLOAT else None,
        size_bytes=sum(chunk.total_compressed_size for chunk in chunks),
    )


def bound_texts(extremes: pa.Array, leaf: Column) -> tuple[str | None, str | None]:
    """Return the least and the greatest value, given as an array of both, as text; or neither."""
    if len(extremes) == 0:
        return None, None
    if leaf.kind is Kind.BLOB:
        lower, upper = extremes.to_pylist()
        return _pair(lower[:LONGEST_BOUND].hex().upper(), _raised_bytes(upper))
    if leaf.kind is Kind.TEXT:
        lower, upper = extremes.to_pylist()
        return _pair(lower.encode()[:LONGEST_BOUND].decode(errors="ignore"), _raised_text(upper))
    if leaf.kind is Kind.BOOLEAN:  # the reference has 0 and 1 in the statistics of files
        lower, upper = extremes.cast(pa.int8()).cast(pa.string()).to_pylist()
    else:
        lower, upper = to_text(extremes, leaf).to_pylist()
    return lower, upper


def _pair(lower: str, upper: str | None) -> tuple[str | None, str | None]:
    """Return the bounds, or neither when there is no upper one or the catalog could not hold one."""
    return (lower, upper) if upper is not None and "\0" not in lower + upper else (None, None)


def _raised_text(text: str) -> str | None:
    """Return the text, or a short one that is greater; only ASCII is raised, as its order is the bytes' order."""
    raw = text.encode()
    if len(raw) <= LONGEST_BOUND:
        return text
    cut = re.sub(r"[^\x00-\x7e]+$", "", raw[:LONGEST_BOUND].decode(errors="ignore"))
    return cut[:-1] + chr(ord(cut[-1]) + 1) if cut else None


def _raised_bytes(value: bytes) -> str | None:
    if len(value) <= LONGEST_BOUND:
        return value.hex().upper()
    cut = value[:LONGEST_BOUND].rstrip(b"\xff")
    return (cut[:-1] + bytes([cut[-1] + 1])).hex().upper() if cut else None
