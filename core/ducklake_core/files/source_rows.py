"""Reads the data files that are written anew. Runs on driver and executors; needs no catalog.

Threads read ahead of who writes: small files whole and some at a time, larger ones piece by piece. What they hold at
once is that of a few pieces, or of a few megabytes of small files, however many and large the files are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, groupby

import numpy as np
import pyarrow as pa

from ducklake_core.files.delete_files import dropped_positions
from ducklake_core.files.parquet_reader import ReadPlans, ReadRequest, iterate_data_file
from ducklake_core.files.small_files import read_small_files
from ducklake_core.files.storage import Storage
from ducklake_core.model import DataFile

_WHOLE_BYTES = 4 * 2**20  # a file no larger, and of no more rows, is read at once
_WHOLE_ROWS = 122_880  # few bytes may be many rows: of equal values, thousands to a byte
_READERS = 2


class SourceRows:
    """The rows of some files as a request has them; those that are deleted at its snapshot are left out."""

    def __init__(self, storage: Storage, files: Sequence[DataFile], request: ReadRequest) -> None:
        self._storage = storage
        self._files = files
        self._request = request
        self._plans = ReadPlans()
        self._dropped: list[int] = []

    @property
    def dropped(self) -> int:
        """How many rows were left out so far."""
        return sum(self._dropped)

    def tables(self) -> Iterator[pa.Table]:
        """Yield all rows in the order of the files."""
        with ThreadPoolExecutor(_READERS, thread_name_prefix="compaction") as readers:
            for is_small, files in groupby(self._files, _is_small):
                if is_small:
                    yield from self._read_small(readers, files)
                else:
                    yield from _made_ahead(readers, chain.from_iterable(map(self._read, files)))

    def _read_small(self, readers: ThreadPoolExecutor, files: Iterable[DataFile]) -> Iterator[pa.Table]:
        coming: deque[Future[pa.Table]] = deque()
        for some in _together(files):
            coming.append(readers.submit(self._read_whole, some))
            if len(coming) > _READERS:
                yield coming.popleft().result()
        yield from (one.result() for one in coming)

    def _read_whole(self, files: Iterable[DataFile]) -> pa.Table:
        with_deletes = [(file, self._dropped_positions(file)) for file in files]
        return read_small_files(self._storage, with_deletes, self._request, self._plans)

    def _read(self, file: DataFile) -> Iterator[pa.Table]:
        dropped = self._dropped_positions(file)
        for rows in iterate_data_file(self._storage, file, self._request, dropped_positions=dropped):
            yield pa.Table.from_batches([rows])

    def _dropped_positions(self, file: DataFile) -> np.ndarray | None:
        snapshot = self._request.snapshot
        dropped = None if snapshot is None else dropped_positions(self._storage, file, snapshot)
        self._dropped.append(0 if dropped is None else len(dropped))
        return dropped


def _is_small(file: DataFile) -> bool:
    return file.file_size_bytes <= _WHOLE_BYTES and file.record_count <= _WHOLE_ROWS


def _together(files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
    """Yield small files in runs that are read by one thread: a hand-over for each would take longer than to read it."""
    some, size_bytes, rows = list[DataFile](), 0, 0
    for file in files:
        some.append(file)
        size_bytes, rows = size_bytes + file.file_size_bytes, rows + file.record_count
        if 2 * size_bytes >= _WHOLE_BYTES or 2 * rows >= _WHOLE_ROWS:
            yield some
            some, size_bytes, rows = [], 0, 0
    if some:
        yield some


def _made_ahead(readers: ThreadPoolExecutor, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield what there is; while one is used, a thread makes the next."""
    coming = readers.submit(next, tables, None)
    while (table := coming.result()) is not None:
        coming = readers.submit(next, tables, None)
        yield table
