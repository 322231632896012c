"""Reads Parquet: the rows of one data file as a snapshot of the table sees them.

Runs on driver and executors; needs no catalog. Which field is which column is decided in `field_match`; this module
reads only the columns it needs and lets go of what the snapshot does not see.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.parquet import encryption

from ducklake_core.errors import CorruptCatalog, UnreadableFile
from ducklake_core.files.field_match import Found, Source, assemble_all, field_id, match_fields
from ducklake_core.files.footer_cache import FOOTERS
from ducklake_core.files.row_groups import WantedGroups, WantedKey, WantedRows
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile, RowSpan, SnapshotId, nodes_of
from ducklake_core.spec.buffers import from_integers, from_mask, integers_of
from ducklake_core.spec.memo import per_object
from ducklake_core.spec.paths import hive_values
from ducklake_core.spec.types import ROW_ID_FIELD, SNAPSHOT_ID_FIELD, arrow_field
from ducklake_core.text_repair import with_valid_text

# What stands behind the columns that are read: no column of a table can have a name with a NUL character.
ROW_IDS = "\0row_id"
SNAPSHOT_IDS = "\0snapshot_id"
POSITIONS = "\0position"  # 0-based, in the file
_RECORD_BATCH_ROWS = 122_880
Rows: TypeAlias = pa.Table | pa.RecordBatch
Wanted: TypeAlias = WantedRows | WantedGroups | Sequence[WantedKey]


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What to read of a data file. Small and frozen: it travels to executors."""

    columns: tuple[Column, ...]  # the projection, as the table is at the wanted snapshot
    snapshot: SnapshotId | None = None  # None: all rows that the file holds
    with_row_ids: bool = False  # adds ROW_IDS
    with_snapshot_ids: bool = False  # adds SNAPSHOT_IDS: the snapshot that inserted each row
    with_positions: bool = False  # adds POSITIONS
    table_columns: tuple[Column, ...] | None = None  # all columns, for files that have neither ids nor a mapping
    with_threads: bool = True  # decodes columns at once; in the way of who reads several files at once
    keeps_footer: bool = False  # in this process: the same file will be opened again

    @property
    def schema(self) -> pa.Schema:
        """The schema of what is read."""
        extra = ((ROW_IDS, self.with_row_ids), (SNAPSHOT_IDS, self.with_snapshot_ids))
        names = [name for name, wanted in (*extra, (POSITIONS, self.with_positions)) if wanted]
        return pa.schema([*map(arrow_field, self.columns), *(pa.field(name, pa.int64()) for name in names)])


def read_data_file(
    storage: Storage,
    file: DataFile,
    request: ReadRequest,
    *,
    dropped_positions: np.ndarray | None = None,
    row_filter: pc.Expression | None = None,
) -> pa.Table:
    """Read the rows of a file; see `iterate_data_file`."""
    record_batches = iterate_data_file(
        storage, file, request, dropped_positions=dropped_positions, row_filter=row_filter
    )
    return pa.Table.from_batches(record_batches, schema=request.schema)


def iterate_data_file(
    storage: Storage,
    file: DataFile,
    request: ReadRequest,
    *,
    dropped_positions: np.ndarray | None = None,
    row_filter: pc.Expression | None = None,
    span: RowSpan | None = None,
    wanted: Wanted | None = None,
    error_snapshot: SnapshotId | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in order, one record batch at a time.

    `dropped_positions` are the sorted positions of deleted rows; `row_filter` is over the columns that are read. A
    `span` is read as the row groups that begin in it, so that spans which share a file's rows out share its row groups
    out; row groups without one of the rows `wanted`, or certainly without one of each of the keys `wanted`, or that are
    not `wanted` themselves, are not read. Raises UnreadableFile, which names the file, and the snapshot read or
    `error_snapshot`, when it is missing, damaged or not what the catalog says.
    """
    with naming_the_file(file, request.snapshot or error_snapshot), storage.open_input(file.path) as source:
        parquet = open_parquet(source, file, request, FOOTERS.find(storage, file) if request.keeps_footer else None)
        if request.keeps_footer:
            FOOTERS.keep(storage, file, parquet.metadata)
        if request.with_positions and parquet.metadata.num_rows != file.record_count:
            # The catalog's count decides when a file has no row left: with a wrong one, rows would be lost.
            raise UnreadableFile(f"it has {parquet.metadata.num_rows} rows, the catalog says {file.record_count}")
        plan = _plan(parquet.schema_arrow, file, request)
        for start, record_batch in _record_batches(parquet, plan, _runs(parquet, plan, span, wanted), request):
            rows = seen_rows(record_batch, plan, file, request, start, dropped_positions)
            rows = rows if row_filter is None else rows.filter(row_filter)
            if rows.num_rows:
                yield rows


def seen_rows(
    record_batch: pa.RecordBatch,
    plan: ReadPlan,
    file: DataFile,
    request: ReadRequest,
    start: int,
    dropped: np.ndarray | None,
) -> pa.RecordBatch:
    """Return what a request sees of a record batch as the file has it, whose first row is at position `start`."""
    kept = _kept(record_batch, plan, file, request, start, dropped)
    arrays = _assembled(record_batch, plan, file, request, start)
    rows = pa.RecordBatch.from_arrays(arrays, schema=plan.schema) if arrays else record_batch
    rows = with_valid_text(rows, file.path)
    return rows if kept is None else rows.filter(from_mask(kept))


def _record_batches(
    parquet: pq.ParquetFile, plan: ReadPlan, runs: Sequence[tuple[list[int], int]], request: ReadRequest
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the record batches of the row groups to be read, each with the position of its first row."""
    use_threads = request.with_threads
    for groups, start in runs:
        position = start
        for record_batch in parquet.iter_batches(_RECORD_BATCH_ROWS, groups, plan.names, use_threads=use_threads):
            yield position, only_named(record_batch, plan.names)
            position += record_batch.num_rows


def only_named(rows: Rows, names: Sequence[str]) -> Rows:
    """Return the columns of these names: asked for `a.b`, Arrow gives the field b of a column a as well."""
    return rows if rows.num_columns == len(names) else rows.select(names)


def _runs(
    parquet: pq.ParquetFile, plan: ReadPlan, span: RowSpan | None, wanted: Wanted | None
) -> list[tuple[list[int], int]]:
    """Return runs of row groups that follow each other, each with the position of its first row."""
    rows = wanted if isinstance(wanted, WantedRows) else None
    groups = wanted.numbers if isinstance(wanted, WantedGroups) else None
    keys = () if wanted is None or isinstance(wanted, WantedRows | WantedGroups) else wanted
    if rows is not None and rows.inserted_in is not None and plan.snapshot_id_name is None:
        raise UnreadableFile("the catalog says that it holds rows of several snapshots, but it does not say which")
    runs: list[tuple[list[int], int]] = []
    by_column = {key.column: key for key in keys}
    leaves = [(by_column[c], leaf) for c, leaf in key_leaves(parquet.metadata, plan, [*by_column])] if keys else []
    start = 0
    for group in range(parquet.num_row_groups):
        found = parquet.metadata.row_group(group)
        size = found.num_rows
        is_read = (span is None or span.first <= start < span.end) and (groups is None or group in groups)
        is_read = is_read and all(key.may_be_in(found, leaf) for key, leaf in leaves)
        if is_read and rows is not None:
            is_read = rows.has_some(start, size, _snapshots_of(parquet, group, plan.snapshot_id_name))
        if is_read and runs and runs[-1][0][-1] == group - 1:
            runs[-1][0].append(group)
        elif is_read:
            runs.append(([group], start))
        start += size
    return runs


def key_leaves(footer: pq.FileMetaData, plan: ReadPlan, columns: Sequence[Column]) -> list[tuple[Column, int]]:
    """Return in which leaf a file has columns, as far as their values are taken as they are."""
    places = {s.column.column_id: p for s, p in zip(plan.sources, plan.places, strict=True) if _is_as_stored(s)}
    named = [(column, places.get(column.column_id)) for column in columns]
    if not any(place is not None for _, place in named):
        return []
    leaves = _named_leaves(footer.schema)
    found = [(column, leaves.get(plan.names[place])) for column, place in named if place is not None]
    return [(column, leaf) for column, leaf in found if leaf is not None]


def _named_leaves(schema: pq.ParquetSchema) -> dict[str, int]:
    """Return leaves by their paths, but none that shares its path: a column `a.b` and the field b of a column a."""
    paths = [schema.column(number).path for number in range(len(schema.names))]
    leaves = {path: number for number, path in enumerate(paths)}
    if len(leaves) == len(paths):
        return leaves
    counts = Counter(paths)
    return {path: number for path, number in leaves.items() if counts[path] == 1}


def plan_of_footer(footer: pq.FileMetaData, file: DataFile, request: ReadRequest) -> ReadPlan:
    """Return the plan of a file of which nothing but the footer is at hand."""
    return _plan(footer.schema.to_arrow_schema(), file, request)


def _is_as_stored(source: Source) -> bool:
    return isinstance(source, Found) and source.is_unchanged


def _snapshots_of(parquet: pq.ParquetFile, group: int, name: str | None) -> tuple[int, int] | None:
    """Return the first and the last snapshot that the rows of a row group are of, None when its footer has no such."""
    if name is None:
        return None
    paths = [parquet.schema.column(i).path for i in range(len(parquet.schema.names))]
    found = parquet.metadata.row_group(group).column(paths.index(name)).statistics
    return (found.min, found.max) if found is not None and found.has_min_max else None


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Where in the record batches of a file everything is. Internal columns by name, None when the file has none."""

    sources: tuple[Source, ...]
    names: list[str]
    places: list[int | None]  # of the sources, in a record batch; None for a constant
    row_id_name: str | None
    snapshot_id_name: str | None
    schema: pa.Schema  # of what is made of them

    @property
    def is_plain(self) -> bool:
        """Whether all columns are taken from the file as they are."""
        return all(isinstance(source, Found) and source.is_unchanged for source in self.sources)


class ReadPlans:
    """The plans of files that were read for one request, by any thread: most are laid out as the one before."""

    def __init__(self) -> None:
        self._last: dict[bool, tuple[pa.Schema, ReadPlan]] = {}  # for partial files and others

    def plan_of(self, schema: pa.Schema, file: DataFile, request: ReadRequest) -> ReadPlan:
        """Return the plan of a file with this schema."""
        if file.mapping is not None:  # some values may be in the file's path
            return _plan(schema, file, request)
        partial = is_partial(file, request)
        known = self._last.get(partial)
        if known is None or not known[0].equals(schema, check_metadata=True):  # where the ids of the fields are
            known = self._last[partial] = schema, _plan(schema, file, request)
        return known[1]


def _plan(schema: pa.Schema, file: DataFile, request: ReadRequest) -> ReadPlan:
    if len(set(schema.names)) < len(schema.names):  # the reference's own file of a table with a column of such a name
        raise UnreadableFile("it has two columns of one name, one of them perhaps an internal one of DuckLake")
    ids = [field_id(found) for found in schema]
    internal = dict(zip(ids, schema.names, strict=True))
    fields = [found for id_, found in zip(ids, schema, strict=True) if id_ not in (ROW_ID_FIELD, SNAPSHOT_ID_FIELD)]
    row_id_name = internal.get(ROW_ID_FIELD) if request.with_row_ids else None
    needs_snapshots = request.with_snapshot_ids or is_partial(file, request)
    snapshot_id_name = internal.get(SNAPSHOT_ID_FIELD) if needs_snapshots else None
    sources = match_fields(
        fields,
        request.columns,
        mapping=file.mapping,
        path_values=None if file.mapping is None else hive_values(file.path),
        table_columns=request.table_columns,
    )
    found = [fields[source.index].name if isinstance(source, Found) else None for source in sources]
    wanted = {*found, row_id_name, snapshot_id_name}
    names = [name for name in schema.names if name in wanted]  # Arrow gives them in this order, which is the file's
    places = [None if name is None else names.index(name) for name in found]
    return ReadPlan(sources, names, places, row_id_name, snapshot_id_name, request.schema)


def _assembled(
    record_batch: pa.RecordBatch, plan: ReadPlan, file: DataFile, request: ReadRequest, start: int
) -> list[pa.Array]:
    """Return the columns asked for, and behind them what else is."""
    found = [None if place is None else record_batch.column(place) for place in plan.places]
    arrays = assemble_all(plan.sources, found, record_batch.num_rows)
    positions = np.arange(start, start + record_batch.num_rows, dtype=np.int64)
    if request.with_row_ids:
        arrays.append(row_ids_of(record_batch, plan, file, positions))
    if request.with_snapshot_ids:
        arrays.append(snapshot_ids_of(record_batch, plan, file))
    if request.with_positions:
        arrays.append(from_integers(positions))
    return arrays


def row_ids_of(rows: Rows, plan: ReadPlan, file: DataFile, positions: np.ndarray) -> pa.Array | pa.ChunkedArray:
    """Return the ids of rows as the file has them."""
    if plan.row_id_name is not None:
        return rows.column(plan.row_id_name).cast(pa.int64())
    if file.row_id_start is None:
        raise UnreadableFile("it has no row ids, neither in the file nor in the catalog")
    return from_integers(positions + file.row_id_start)


def snapshot_ids_of(rows: Rows, plan: ReadPlan, file: DataFile) -> pa.Array | pa.ChunkedArray:
    """Return the snapshots that inserted rows as the file has them."""
    if plan.snapshot_id_name is not None:
        return rows.column(plan.snapshot_id_name).cast(pa.int64())
    return from_integers(np.full(rows.num_rows, file.begin_snapshot, np.int64))


def is_partial(file: DataFile, request: ReadRequest) -> bool:
    """Tell whether the file holds rows that the snapshot does not see yet."""
    return file.partial_max is not None and request.snapshot is not None and file.partial_max > request.snapshot


def _kept(
    record_batch: pa.RecordBatch,
    plan: ReadPlan,
    file: DataFile,
    request: ReadRequest,
    start: int,
    dropped: np.ndarray | None,
) -> np.ndarray | None:
    """Return which rows of a record batch are seen, None when all are."""
    kept: np.ndarray | None = None
    if is_partial(file, request):
        if plan.snapshot_id_name is None:
            raise UnreadableFile("the catalog says that it holds rows of several snapshots, but it does not say which")
        kept = integers_of(snapshot_ids_of(record_batch, plan, file)) <= request.snapshot
    if dropped is not None and len(dropped):
        first, last = np.searchsorted(dropped, (start, start + record_batch.num_rows))
        kept = np.ones(record_batch.num_rows, bool) if kept is None else kept.copy()
        kept[dropped[first:last] - start] = False
    return kept


# --------------------------------------------------------------------------------------------- opening


def open_parquet(
    source: pa.NativeFile, file: DataFile, request: ReadRequest, footer: pq.FileMetaData | None = None
) -> pq.ParquetFile:
    """Open a data file. `footer`: its footer, where that is known."""
    return pq.ParquetFile(
        source,
        metadata=footer,
        pre_buffer=not isinstance(source, pa.BufferReader),
        decryption_properties=decryption_of(file.encryption_key),
        # INT96 reaches farther than nanoseconds in 64 bits do.
        coerce_int96_timestamp_unit="ns" if _has_nanoseconds(request.columns) else "us",
    )


@per_object
def _has_nanoseconds(columns: tuple[Column, ...]) -> bool:
    return any(node.type == "timestamp_ns" for node in nodes_of(columns))


def decryption_of(key: str | None) -> encryption.FileDecryptionProperties | None:
    """Return how to decrypt a file with the catalog's key, None for a plain file."""
    if key is None:
        return None
    try:
        return encryption.create_decryption_properties(footer_key=base64.b64decode(key, validate=True))
    except (binascii.Error, ValueError) as error:
        raise UnreadableFile("the catalog's encryption key for it is not valid") from error


@contextmanager
def naming_the_file(file: DataFile, snapshot: SnapshotId | None) -> Iterator[None]:
    """Turn every failure to read into an UnreadableFile that says which file, and for which snapshot."""
    try:
        yield
    except (pa.ArrowException, OSError, CorruptCatalog, UnreadableFile) as error:
        at = "" if snapshot is None else f" at snapshot {snapshot}"
        raise UnreadableFile(
            f"cannot read data file {file.data_file_id} '{file.path}'{at}: {explain(error)}",
            path=file.path,
            data_file_id=file.data_file_id,
            snapshot=snapshot,
        ) from error


def explain(error: Exception) -> str:
    """Return what went wrong, in words that help."""
    text = str(error)
    if "decryption" in text.lower():
        return f"it cannot be decrypted ({text}); pyarrow cannot read files that DuckDB encrypted, only DuckDB can"
    return text
