"""What a decoder of records is. Made on the driver; what it adds to a frame is computed on executors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame

DECODED = "_decoded"
ERROR = "_error"
STALE = "_stale"


class Decoder(Protocol):
    """Decodes the values of Kafka records, batch after batch. Each record is decoded whole, or has an error."""

    def decode(self, records: DataFrame) -> DataFrame:
        """Return the records with three columns more, and perhaps others that nobody looks at.

        `_decoded`: a struct of the payload's fields. `_error`: why the record cannot be decoded, null if it can.
        `_stale`: its writer's schema has fields that this decoder does not know yet; it is decoded after `refresh`.
        """

    def refresh(self) -> None:
        """Learn the newest schemas. A decoder that has none but its own does nothing."""


@runtime_checkable
class ExplainingDecoder(Decoder, Protocol):
    """A decoder that can say more of a record than its `_error`."""

    def explainer(self) -> Callable[[bytes | None, str], str]:
        """Return a function from a record's value and error to the reason; it is pickled, and runs on executors."""
