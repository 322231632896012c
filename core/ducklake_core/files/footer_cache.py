"""Footers of data files that were read lately: ours never change. One cache for each process; any thread may ask."""

from __future__ import annotations

import pyarrow.parquet as pq

from ducklake_core.files.recent import Recent
from ducklake_core.files.storage import Storage
from ducklake_core.model import DataFile

_MOST_BYTES = 16 * 2**20  # as files have them; decoded they take a few times as much


class FooterCache:
    """Footers by the storage, the path and the size of their file; those that were asked for last stay.

    None of encrypted files. None of files with a name mapping: others wrote them, and may put another in their place.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._footers: Recent[tuple[Storage, str, int], pq.FileMetaData] = Recent(most_bytes)

    def find(self, storage: Storage, file: DataFile) -> pq.FileMetaData | None:
        return self._footers.find((storage, file.path, file.file_size_bytes))

    def keep(self, storage: Storage, file: DataFile, footer: pq.FileMetaData) -> None:
        if file.mapping is None and file.encryption_key is None and self.find(storage, file) is None:
            self._footers.keep((storage, file.path, file.file_size_bytes), footer, footer.serialized_size)


FOOTERS = FooterCache()
