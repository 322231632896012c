"""How far streams have written and consumers have read: these methods are part of `Lake`. No Spark.

Both are in tables of our own beside the format's: the ledger and the consumers.
"""

from __future__ import annotations

from datetime import datetime

from ducklake_core.catalog import ledger
from ducklake_core.catalog.consumers import forget_consumer, read_consumers, read_unread_since, record_consumer
from ducklake_core.catalog.database import Database
from ducklake_core.model import Consumer, LedgerEntry


class Progress:
    """Reads, records and forgets how far somebody has come. No method makes a snapshot."""

    database: Database
    _has_ledger = False

    def ledger_entry(self, stream: str) -> LedgerEntry | None:
        """Return the last epoch that was committed for a stream, None when there is none."""
        self._ensure_ledger()
        return self.database.ask(lambda session: ledger.read_entry(session, stream))

    def forget_stream(self, stream: str) -> bool:
        """Remove a stream from the ledger; tell whether there was one. No row of a table changes.

        What was committed of it is not known any more then: a query with its checkpoint is refused by `LedgerBehind`,
        unless it is at batch 0 still, which would be written again; one with a new checkpoint begins anew.
        """
        self._ensure_ledger()
        return ledger.forget_stream(self.database, stream)

    def consumers(self) -> list[Consumer]:
        """Return the readers of change feeds that have a `consumerId`, and how far they have read."""
        return read_consumers(self.database)

    def unread_since(self) -> dict[str, datetime]:
        """Return the time of the oldest snapshot that each consumer has yet to read; none of those who have all."""
        return read_unread_since(self.database)

    def record_consumer(self, consumer: Consumer) -> None:
        """Write how far a reader has read. Raises InvalidInput when the name is that of a reader of another table."""
        self._ensure_ledger()
        record_consumer(self.database, consumer)

    def forget_consumer(self, name: str) -> bool:
        """Remove a reader, so that it holds back no expiry any more; tell whether there was one."""
        self._ensure_ledger()
        return forget_consumer(self.database, name)

    def _ensure_ledger(self) -> None:
        if not self._has_ledger:
            ledger.create_ledger(self.database)
            self._has_ledger = True
