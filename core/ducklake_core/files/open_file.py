"""One data file while it is written: row groups go in one by one, and its facts come out at the end.

Runs on driver and executors; needs no catalog. Memory is that of a row group and of the footer, however large the file.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.parquet import encryption
from uuid6 import uuid7

from ducklake_core.files.dictionaries import repetitive_leaves
from ducklake_core.files.parquet_types import parquet_field, to_parquet_form
from ducklake_core.files.partition_sort import PartitionValues
from ducklake_core.files.statistics import LeafRange, file_stats, leaf_paths, leaf_ranges, leaf_values, merge_ranges
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.model import Column, NewDataFile, Partitioning, SortOrder
from ducklake_core.spec.paths import hive_directory, hive_keys
from ducklake_core.spec.types import FIELD_ID, ROW_ID_FIELD, ROW_ID_NAME, SNAPSHOT_ID_FIELD, SNAPSHOT_ID_NAME
from ducklake_core.spec.write_options import WriteOptions


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How the rows of one table are laid out in files. Small and frozen: it travels to executors."""

    directory: str  # the table's, with a trailing slash
    columns: tuple[Column, ...]
    partitioning: Partitioning | None = None
    sort_order: SortOrder | None = None
    options: WriteOptions = field(default_factory=WriteOptions)


def new_data_file_name(unique: Callable[[], UUID] = uuid7) -> str:
    return f"ducklake-{unique()}.parquet"


class OpenFile:
    """A data file that is being written. Use it in a `with` block: after a failure nothing of it is left.

    `first` are rows such as will come: their columns, which of these repeat values, and whether there are NaNs. Writers
    leave NaN out of a file's own statistics, and DuckDB, to which NaN is the greatest number, would skip row groups
    that hold one; so a file has no statistics of the leaves in which its first rows have one, nor of those of
    `with_nan`. `takes` tells of later rows. A small file is written in memory, and goes to the storage in one piece.
    """

    def __init__(
        self,
        storage: Storage,
        layout: FileLayout,
        first: pa.Table,
        values: PartitionValues | None = None,
        new_name: Callable[[], str] = new_data_file_name,
        with_nan: frozenset[str] = frozenset(),
        *,
        is_small: bool = False,
    ) -> None:
        self.path = directory_of(layout, values) + new_name()
        self.record_count = 0
        self._storage = storage
        self._layout = layout
        self._values = values
        self._key = secrets.token_bytes(16) if layout.options.encrypted else None
        self._has_row_ids = ROW_ID_NAME in first.column_names
        self.with_nan = with_nan | leaves_with_nan(layout.columns, first)
        self._schema = _stored_schema(layout.columns, first)
        self._with_dictionary = [*repetitive_leaves(layout.columns, first), SNAPSHOT_ID_NAME]
        self._footers: list[pq.FileMetaData] = []
        self._ranges: list[list[LeafRange]] = []
        self._is_small = is_small
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._sink = pa.BufferOutputStream() if self._is_small else self._opened()
        self._writer = self._stack.enter_context(self._parquet_writer())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, _)

    def _opened(self) -> pa.NativeFile:
        return self._stack.enter_context(self._storage.open_output(self.full_path))

    @property
    def full_path(self) -> str:
        return self._layout.directory + self.path

    @property
    def is_full(self) -> bool:
        return bool(self._sink.tell() >= self._layout.options.target_file_bytes)

    def takes(self, rows: pa.Table) -> bool:
        """Tell whether rows may go into this file: not those with a NaN in a leaf of which it has statistics."""
        return leaves_with_nan(self._layout.columns, rows) <= self.with_nan

    def write(self, rows: pa.Table) -> None:
        """Write rows as one row group."""
        self._writer.write_table(self._stored(rows), row_group_size=max(1, len(rows)))
        self._ranges.append(leaf_ranges(self._layout.columns, rows))
        self.record_count += len(rows)

    def finish(self) -> NewDataFile:
        """Close the file and return its facts; when that fails nothing of the file is left."""
        self._writer.close()
        size_bytes = self._sink.tell()
        self._stack.close()
        if self._is_small:
            content = self._sink.getvalue()
            facts = self._facts(size_bytes, footer_size_in(content))
            self._storage.write_whole(self.full_path, content)
            return facts
        with WrittenFiles(self._storage, [self.full_path]):  # it is closed, and nobody has heard of it
            return self._facts(size_bytes, footer_size(self._storage, self.full_path, size_bytes))

    def _facts(self, size_bytes: int, footer_bytes: int) -> NewDataFile:
        columns = self._layout.columns
        return NewDataFile(
            path=self.path,
            path_is_relative=True,
            record_count=self.record_count,
            file_size_bytes=size_bytes,
            footer_size=footer_bytes,
            column_stats=file_stats(columns, merge_ranges(self._ranges, columns), self._footers[0]),
            partition_values=self._values,
            has_row_ids=self._has_row_ids,
            encryption_key=None if self._key is None else base64.b64encode(self._key).decode(),
        )

    def _parquet_writer(self) -> pq.ParquetWriter:
        options = self._layout.options
        secret = None if self._key is None else encryption.create_encryption_properties(footer_key=self._key)
        with_statistics = [p for p in leaf_paths(self._layout.columns) if p not in self.with_nan]
        return pq.ParquetWriter(
            self._sink,
            self._schema,
            compression=options.compression,
            compression_level=options.compression_level,
            data_page_version=options.data_page_version,
            use_dictionary=self._with_dictionary,
            # Row ids mostly follow each other: so they take next to no space.
            column_encoding={ROW_ID_NAME: "DELTA_BINARY_PACKED"} if self._has_row_ids else None,
            store_decimal_as_integer=True,
            store_schema=False,  # the catalog has the schema; Arrow's copy could only contradict it
            write_statistics=with_statistics if self.with_nan else True,
            encryption_properties=secret,
            metadata_collector=self._footers,
        )

    def _stored(self, rows: pa.Table) -> pa.Table:
        columns = self._layout.columns
        arrays = [to_parquet_form(rows.column(column.name), column) for column in columns]
        internal = [rows.column(name) for name in self._schema.names[len(columns) :]]
        return pa.Table.from_arrays(arrays + internal, schema=self._schema)


def leaves_with_nan(columns: Sequence[Column], rows: pa.Table) -> frozenset[str]:
    """Return the Parquet paths of the leaves in which some rows have a NaN."""
    floating = [c for c in columns if any(leaf.type.startswith("float") for leaf in c.leaves())]
    leaves = zip(leaf_paths(floating), leaf_values(floating, rows), strict=True)
    return frozenset(path for path, chunks in leaves if any(map(_has_nan, chunks)))


def _has_nan(values: pa.Array) -> bool:
    if not pa.types.is_floating(values.type) or values.null_count == len(values):
        return False
    if not values.null_count:
        return bool(np.isnan(np.min(values.to_numpy())))  # which is NaN if one is
    return bool(pc.any(pc.is_nan(values), min_count=0).as_py())


def rows_per_group(rows: pa.Table, options: WriteOptions) -> int:
    """Return how many rows make a row group: as many as the option says, unless they were larger than allowed."""
    return group_rows(len(rows), int(rows.nbytes), options)


def group_rows(row_count: int, size_bytes: int, options: WriteOptions) -> int:
    """Return the same, of rows of which the size is known."""
    limit = min(options.row_group_bytes or options.target_file_bytes, options.target_file_bytes)
    return max(1, min(options.row_group_rows, limit * row_count // max(1, size_bytes)))


def footer_size(storage: Storage, path: str, size_bytes: int) -> int:
    """Return the length that a Parquet file gives for its footer, in the four bytes before the final magic."""
    with storage.open_input(path) as source:
        source.seek(size_bytes - 8)
        return int.from_bytes(source.read(4), "little")


def footer_size_in(content: pa.Buffer) -> int:
    """Return the same, of a file in memory."""
    return int.from_bytes(content.slice(content.size - 8, 4).to_pybytes(), "little")


def directory_of(layout: FileLayout, values: PartitionValues | None) -> str:
    """Return the directory of a partition, relative to the table's."""
    if layout.partitioning is None or values is None or not layout.options.hive_directories:
        return ""
    return hive_directory(hive_keys(layout.partitioning.keys, layout.columns), values)


def _stored_schema(columns: Sequence[Column], rows: pa.Table) -> pa.Schema:
    internal = [
        pa.field(name, pa.int64(), metadata={FIELD_ID: str(field_id).encode()})
        for name, field_id in ((ROW_ID_NAME, ROW_ID_FIELD), (SNAPSHOT_ID_NAME, SNAPSHOT_ID_FIELD))
        if name in rows.column_names
    ]
    return pa.schema([*(parquet_field(column) for column in columns), *internal])
