"""Whether the records of a batch will be read twice: once for rows, once for those with an error. Runs on the driver.

To read a topic and decode its records a second time takes as long as the first time. To keep what was read costs a
little with every batch. So records are kept where batches of a moment ago had errors.
"""

from __future__ import annotations

from contextlib import ExitStack

from pyspark.sql import DataFrame

from ducklake_streaming.formats.decoder import DECODED, ERROR, STALE
from ducklake_streaming.jobs.input_view import METADATA

KEEPING_BATCHES = 5  # after one with errors
_COLUMNS = (*METADATA, "value", DECODED, ERROR, STALE)


class SecondReads:
    """Remembers which of the last batches had errors."""

    def __init__(self) -> None:
        self._left = 0  # batches whose records are to be kept
        self._left_before = 0

    def prepare(self, decoded: DataFrame, kept: ExitStack) -> DataFrame:
        """Return the records, which Spark keeps until the end of `kept` where a second read is to be expected.

        A batch that fails, perhaps because they are too many to be kept, comes again: then they are not.
        """
        self._left_before, self._left = self._left, 0
        if not self._left_before:
            return decoded
        found = decoded.select(*_COLUMNS).persist()
        kept.callback(found.unpersist)
        return found

    def note(self, errors: int) -> None:
        """Take notice of a batch that was read."""
        self._left = KEEPING_BATCHES if errors else max(0, self._left_before - 1)
