"""Topics that each have columns and a table of their own, written in one transaction. Runs on the driver."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention

from ducklake_sinks.transaction import SinkTransaction


class TopicWriter(Protocol):
    """Writes the records of one topic."""

    def write(
        self, tx: SinkTransaction, batch: DataFrame, kept: ExitStack | None = None, *, are_few: bool = False
    ) -> bool:
        """Put records into a transaction; False: newer schemas must be learned first."""

    def learn(self) -> None:
        """Learn the newest schemas."""


class TopicWriters:
    """One writer for each topic that a batch has brought."""

    def __init__(self, make: Callable[[str], TopicWriter]) -> None:
        self._make = make
        self._by_topic: dict[str, TopicWriter] = {}

    def write(self, tx: SinkTransaction, batch: DataFrame, kept: ExitStack | None, *, are_few: bool) -> bool:
        """Put a batch into a transaction, topic by topic; False: newer schemas must be learned first."""
        topics = sorted(row.topic for row in batch.select("topic").distinct().collect())
        return all(
            self._of(topic).write(tx, batch.where(F.col("topic") == topic), kept, are_few=are_few) for topic in topics
        )

    def learn(self) -> None:
        for writer in self._by_topic.values():
            writer.learn()

    def _of(self, topic: str) -> TopicWriter:
        if topic not in self._by_topic:
            self._by_topic[topic] = self._make(topic)
        return self._by_topic[topic]
