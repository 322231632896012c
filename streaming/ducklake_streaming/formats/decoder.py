"""What a decoder of records is. Made on the driver; what it adds to a frame is computed on executors."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame

DECODED = "_decoded"
ERROR = "_error"
STALE = "_stale"


class Decoder(Protocol):
    """Decodes the values of Kafka records, batch after batch. Each record is decoded whole, or has an error."""

    def decode(self, records: DataFrame) -> DataFrame:
        """Return the records with three columns more.

        `_decoded`: a struct of the payload's fields. `_error`: why the record cannot be decoded, null if it can.
        `_stale`: its writer's schema has fields that this decoder does not know yet; it is decoded after `refresh`.
        """

    def refresh(self) -> None:
        """Learn the newest schemas. A decoder that has none but its own does nothing."""
