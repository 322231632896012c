"""Which query writes: its id, as Spark keeps it in the checkpoint. Runs in Python processes of the driver.

Spark tells a sink in Python the number of a batch and nothing of the query. A checkpoint that was made anew has another
id, and its batches begin again at 0: without the id they would be taken for repeated ones, and lost.
"""

from __future__ import annotations

import json

from ducklake_core.errors import DuckLakeError, InvalidInput
from ducklake_core.files.storage import Storage
from ducklake_core.spec.paths import hide_password, same_storage
from ducklake_core.storage_settings import StorageSettings, storage_options


def read_query_id(location: str | None, storage: StorageSettings | None) -> str:
    """Return the id of the query that has a checkpoint. Raises InvalidInput where that cannot be known."""
    if location is None:
        raise InvalidInput(f"checkpointLocation is missing: give it as an option of the writer, for {_WHY}")
    place = same_storage(location.rstrip("/")).removeprefix("file://")
    if place.startswith("file:"):
        place = place.removeprefix("file:")
    try:
        with Storage.of(place, storage_options(storage)).open_input(f"{place}/metadata") as source:
            return str(json.loads(source.read())["id"])
    except (DuckLakeError, OSError, ValueError, KeyError) as error:
        raise InvalidInput(
            f"cannot read which query has the checkpoint '{hide_password(location)}': {error}. The driver needs that, "
            f"for {_WHY}. Where it cannot be, write by foreachBatch and DuckLakeSink"
        ) from error


_WHY = "it tells a batch that is repeated from one of another query"
