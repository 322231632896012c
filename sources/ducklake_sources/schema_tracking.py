"""Which columns a stream reads, kept beside its checkpoint, so that it goes on after columns were renamed or dropped.

A log of small files, `0.json`, `1.json` and so on: each names a snapshot, and the stream has the columns that the table
had then. The last one counts. Runs on the driver.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from ducklake_core.errors import OffsetMismatch
from ducklake_core.files.storage import Storage
from ducklake_core.files.storage_options import StorageOptions
from ducklake_core.model import SnapshotId, TableVersion


@dataclass(frozen=True, slots=True)
class SchemaTracking:
    """The log in one directory."""

    storage: Storage
    directory: str

    @classmethod
    def of(cls, location: str, options: StorageOptions | None = None) -> Self:
        return cls(Storage.of(location, options), location.rstrip("/") + "/")

    def last(self, table: TableVersion) -> SnapshotId | None:
        """Return the snapshot whose columns count, None when nothing is recorded."""
        numbers = self._numbers()
        if not numbers:
            return None
        path = f"{self.directory}{numbers[-1]}.json"
        with self.storage.open_input(path) as source:
            entry = json.loads(source.read())
        if UUID(entry["table_uuid"]) != table.table_uuid:
            raise OffsetMismatch(
                f"'{path}' is of another table than '{table.qualified_name}': "
                "give each stream a schemaTrackingLocation of its own",
                path=path,
            )
        return SnapshotId(int(entry["snapshot_id"]))

    def record(self, table: TableVersion, snapshot: SnapshotId) -> None:
        """Write an entry; one that says the same as the last is not written again."""
        if self.last(table) == snapshot:
            return
        numbers = self._numbers()
        entry = {"v": 1, "table_uuid": str(table.table_uuid), "snapshot_id": snapshot}
        with self.storage.open_output(f"{self.directory}{numbers[-1] + 1 if numbers else 0}.json") as sink:
            sink.write(json.dumps(entry).encode())

    def _numbers(self) -> list[int]:
        names = (name.removesuffix(".json") for name in self.storage.files_in(self.directory) if name.endswith(".json"))
        return sorted(int(name) for name in names if name.isdigit())
