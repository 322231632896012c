"""What keeps a lake fast and whole, as methods that are part of `Lake`. Runs on the driver; no Spark is needed."""

from __future__ import annotations

from ducklake_core.catalog.database import Database
from ducklake_core.clock import Clock
from ducklake_core.files.storage import Storage
from ducklake_core.observe import Recorders


class MaintenanceCalls:
    """Merges, rewrites, expires and cleans up. Each method returns what it did as a `MaintenanceReport`."""

    database: Database
    storage: Storage
    data_path: str
    clock: Clock
    recorder: Recorders
