"""Footers of data files that were read lately: ours never change. One cache for each process; any thread may ask."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import pyarrow.parquet as pq

from ducklake_core.files.storage import Storage
from ducklake_core.model import DataFile

_MOST_BYTES = 16 * 2**20  # as files have them; decoded they take a few times as much


class FooterCache:
    """Footers by the storage, the path and the size of their file; those that were asked for last stay.

    None of encrypted files. None of files with a name mapping: others wrote them, and may put another in their place.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._footers: OrderedDict[tuple[Storage, str, int], pq.FileMetaData] = OrderedDict()
        self._most_bytes = most_bytes
        self._bytes = 0
        self._lock = Lock()

    def find(self, storage: Storage, file: DataFile) -> pq.FileMetaData | None:
        with self._lock:
            key = storage, file.path, file.file_size_bytes
            found = self._footers.get(key)
            if found is not None:
                self._footers.move_to_end(key)
            return found

    def keep(self, storage: Storage, file: DataFile, footer: pq.FileMetaData) -> None:
        if file.mapping is not None or file.encryption_key is not None:
            return
        with self._lock:
            key = storage, file.path, file.file_size_bytes
            if key in self._footers:
                return
            self._footers[key] = footer
            self._bytes += footer.serialized_size
            while self._bytes > self._most_bytes:
                self._bytes -= self._footers.popitem(last=False)[1].serialized_size


FOOTERS = FooterCache()
