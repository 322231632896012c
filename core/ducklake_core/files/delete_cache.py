"""Positions of delete files that were read or written lately: these never change, either. One for each process."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from ducklake_core.files.recent import Recent
from ducklake_core.model import DeleteFile

_MOST_BYTES = 16 * 2**20
_ENTRY_BYTES = 500  # of one without its positions, roughly
Deletes: TypeAlias = tuple[np.ndarray, np.ndarray | None]  # positions, and the snapshots if the file says them


class DeleteCache:
    """Deletes by the path of their file; those that were asked for last stay. None of encrypted files."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._files: Recent[str, Deletes] = Recent(most_bytes)

    def find(self, delete_file: DeleteFile) -> Deletes | None:
        return None if delete_file.encryption_key is not None else self._files.find(delete_file.path)

    def keep(self, path: str, deletes: Deletes) -> None:
        positions, snapshots = deletes
        size_bytes = positions.nbytes + (0 if snapshots is None else snapshots.nbytes)
        self._files.keep(path, deletes, _ENTRY_BYTES + size_bytes)


DELETES = DeleteCache()
