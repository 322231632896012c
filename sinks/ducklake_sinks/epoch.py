"""Whether a batch may be written, and as which epoch: decided here, and nowhere else in the sink. Runs on the driver.

The lake's commit decides once more, in the transaction that records the epoch. What is found here saves reading a batch
in vain, and tells a mistake of the caller from a batch that Spark repeats.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ducklake_core import CommitResult, Epoch, faults
from ducklake_core.errors import InvalidInput
from ducklake_core.model import LedgerEntry
from ducklake_core.plan.epochs import EpochDecision, decide_epoch
from ducklake_sinks.memory import RunMemory
from ducklake_sinks.options import SinkOptions
from ducklake_sinks.query import BY_HAND, Query


@dataclass(frozen=True, slots=True)
class EpochStart:
    """A batch that begins: who asks, as which epoch, and whether the ledger has it already."""

    query: Query
    epoch: Epoch | None  # None: rows without a number, which nothing keeps from being written twice
    committed: LedgerEntry | None = None  # the same epoch, when the ledger has it already
    offsets: list[Any] | None = None  # Any: JSON of the sources
    offsets_before: list[Any] | None = None  # of the batch before; Any: see above

    @property
    def is_replay(self) -> bool:
        return self.committed is not None

    @property
    def names(self) -> dict[str, object]:
        """The names of the batch in a log line."""
        return {} if self.epoch is None else {"stream": self.epoch.stream, "batch": self.epoch.batch_id}

    def extra_info(self, options: SinkOptions) -> str:
        """Return what people can read about the snapshot; we look for the stream, which comes first: see `told_of`."""
        epoch = self.epoch
        facts = {
            "stream": options.stream if epoch is None else epoch.stream,
            "batch_id": None if epoch is None else epoch.batch_id,
            "query_id": None if epoch is None else epoch.query_id,
            "run_id": None if epoch is None else epoch.run_id,
            "offsets": self.offsets,
            "job": options.job,
        }
        return json.dumps({name: value for name, value in facts.items() if value is not None})


class EpochGate:
    """Lets each batch of a stream pass once. `read_entry` asks the ledger for the last epoch of a stream."""

    def __init__(self, read_entry: Callable[[str], LedgerEntry | None]) -> None:
        self._read_entry = read_entry
        self._run = RunMemory()

    def start(self, query: Query, stream: str, batch_id: int) -> EpochStart:
        """Look up the epoch of a batch. Raises a LedgerError when it must not be committed.

        Not in a run that has committed: Spark repeats no batch in a run, and the commit asks the ledger all the same.
        """
        continues = self._run.has_committed(query.run_id)
        epoch = Epoch(stream, batch_id, query.query_id, query.run_id, continues)
        faults.at("before_ledger_read")
        if not continues or query.query_id == BY_HAND:
            entry = self._read_entry(stream)
            if decide_epoch(epoch, entry) is EpochDecision.REPLAY:
                _refuse_second_use(epoch, entry)
                return EpochStart(query, epoch, entry)
        return EpochStart(query, epoch, None, query.offsets(batch_id), self._offsets_before(query, batch_id))

    def start_version(self, epoch: Epoch, table_uuid: UUID | None) -> EpochStart:
        """Look up an epoch that is counted for one table; one that is not there yet has none."""
        entry = None if table_uuid is None else self._read_entry(epoch.of_table(table_uuid).stream)
        is_replay = decide_epoch(epoch, entry) is EpochDecision.REPLAY
        return EpochStart(Query(epoch.query_id, epoch.run_id), epoch, entry if is_replay else None)

    def _offsets_before(self, query: Query, batch_id: int) -> list[Any] | None:  # Any: JSON of the sources
        """Return where a batch begins. Spark is asked once in a run: then it is where the last batch ended."""
        if self._run.has_committed(query.run_id):
            return self._run.offsets
        return query.offsets(batch_id - 1) if batch_id > 0 else None

    def check(self, start: EpochStart, result: CommitResult) -> None:
        """See who had committed the epoch before us: another run may, this one cannot without losing rows now."""
        if result.replayed and start.epoch is not None:
            _refuse_second_use(start.epoch, self._read_entry(start.epoch.stream))

    def remember(self, start: EpochStart) -> None:
        """Take notice that the run has committed."""
        if start.epoch is not None:
            self._run.committed_run_id, self._run.offsets = start.epoch.run_id, start.offsets


def _refuse_second_use(epoch: Epoch, entry: LedgerEntry | None) -> None:
    """Refuse an epoch that this very run has committed: Spark brings no batch twice in a run, so rows would be lost."""
    if epoch.query_id != BY_HAND and entry is not None and entry.run_id == epoch.run_id:
        raise InvalidInput(
            f"batch {epoch.batch_id} of stream '{epoch.stream}' has been committed in this run already: to write "
            "several frames of one batch, use 'with sink.transaction(batch_id) as tx' and tx.append for each; where "
            "one query has two sinks, give each a stream='…' of its own"
        )
