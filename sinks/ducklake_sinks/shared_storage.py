"""Whether the driver finds what executors have written. Runs on the driver.

A data path that is a folder must be the same folder on every machine. Where it is not, each executor writes to its own
disk, nothing fails, and the rows would be lost: Spark's writer does not notice, and our tasks cannot. An object store
is the same from everywhere, if Spark's settings lead to the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention

from ducklake_core.errors import UnwritableFile
from ducklake_core.files.storage import Storage
from ducklake_core.model import NewDataFile
from ducklake_core.spec.paths import hide_password

_COUNT = "rows"


def refuse_unshared_files(storage: Storage, directory: str, files: Iterable[NewDataFile]) -> None:
    """Raise UnwritableFile if a file that a task of ours has written in a table's directory is not there."""
    if not storage.is_local:
        return
    for file in files:
        if storage.find_size(directory + file.path) != file.file_size_bytes:
            raise _unshared(storage, f"a task has written file '{directory + file.path}', and it is not there")


class CountedRows:
    """A frame whose rows are counted while Spark's own writer writes them: wherever they go, none is lost unnoticed."""

    def __init__(self, frame: DataFrame) -> None:
        self._observation = Observation()
        self.frame = frame.observe(self._observation, F.count(F.lit(1)).alias(_COUNT))

    def refuse_unshared_rows(self, storage: Storage, files: Sequence[NewDataFile]) -> None:
        """Raise UnwritableFile if the files that were found have fewer rows than were written."""
        written = int(self._observation.get.get(_COUNT, 0))
        found = sum(file.record_count for file in files)
        if found < written:
            raise _unshared(storage, f"of {written} rows that Spark's tasks have written, {found} are there")


def _unshared(storage: Storage, found: str) -> UnwritableFile:
    path = hide_password(storage.root)
    remedy = (
        "Mount the same folder at this path on every machine, or keep the lake's files in an object store"
        if storage.is_local
        else "Let spark.hadoop.fs.s3a.endpoint lead to the store that the lake's storage settings name"
    )
    return UnwritableFile(f"driver and executors do not share data path '{path}': {found}. {remedy}", path=path)
