"""Opens the lake of a job file, the same way for all that do. Runs on the driver; no Spark."""

from __future__ import annotations

from ducklake_core import Lake
from ducklake_core.observe import LOG_RECORDER, Recorder
from ducklake_core.retries import CatalogTimeout
from ducklake_streaming.jobs.settings import CatalogSettings


def open_job_lake(
    catalog: CatalogSettings, timeout: CatalogTimeout | None = None, recorder: Recorder = LOG_RECORDER
) -> Lake:
    """Open it; `timeout` None: as the file says. Raises what `Lake.open` does."""
    return Lake.open(
        catalog.url,
        data_path=catalog.data_path,
        override_data_path=catalog.override_data_path,
        storage=catalog.storage,
        metadata_schema=catalog.metadata_schema,
        catalog_timeout=catalog.timeout if timeout is None else timeout,
        recorder=recorder,
    )
