"""Whether an epoch may be committed, given what the ledger holds for its stream. Pure."""

from __future__ import annotations

from enum import Enum

from ducklake_core.errors import EpochOutOfOrder, LedgerBehind, StreamFenced
from ducklake_core.model import Epoch, LedgerEntry


class EpochDecision(Enum):
    """What to do with an epoch."""

    COMMIT = "commit"
    REPLAY = "replay"  # it is committed already: write nothing


def decide_epoch(epoch: Epoch, entry: LedgerEntry | None) -> EpochDecision:
    """Decide by the ledger's entry for the stream; refuse what would lose or double rows, never skip in silence."""
    if epoch.leaves_gaps and (entry is None or entry.query_id == epoch.query_id):
        return EpochDecision.COMMIT if entry is None or entry.batch_id < epoch.batch_id else EpochDecision.REPLAY
    if entry is None or entry.query_id == epoch.query_id:
        _refuse_gap(epoch, entry)
    if entry is None:
        return EpochDecision.COMMIT
    if epoch.continues_run and entry.run_id != epoch.run_id:
        raise StreamFenced(
            f"cannot commit {_name(epoch)}: run '{entry.run_id}' has taken over the stream at batch {entry.batch_id}; "
            f"this run '{epoch.run_id}' must stop",
            stream=epoch.stream,
            batch_id=epoch.batch_id,
        )
    if entry.query_id != epoch.query_id:
        raise EpochOutOfOrder(
            f"cannot commit {_name(epoch)}: the ledger has batch {entry.batch_id} of another query '{entry.query_id}' "
            f"under this name, so the checkpoint was deleted or belongs to another query; {_REMEDY}",
            stream=epoch.stream,
            batch_id=epoch.batch_id,
        )
    if epoch.batch_id < entry.batch_id:
        raise EpochOutOfOrder(
            f"cannot commit {_name(epoch)}: the ledger is at batch {entry.batch_id} already, so an old checkpoint was "
            f"restored; {_REMEDY}",
            stream=epoch.stream,
            batch_id=epoch.batch_id,
        )
    return EpochDecision.REPLAY if epoch.batch_id == entry.batch_id else EpochDecision.COMMIT


def is_next(epoch: Epoch, entry: LedgerEntry | None) -> bool:
    """Tell whether an epoch follows the entry in the same run. Then it may be committed, by all the rules above.

    For whoever has only a memory of the entry: what does not follow on that is decided by what the ledger holds.
    """
    follower = (epoch.stream, epoch.query_id, epoch.run_id, epoch.batch_id - 1)
    return entry is not None and follower == (entry.stream, entry.query_id, entry.run_id, entry.batch_id)


def _refuse_gap(epoch: Epoch, entry: LedgerEntry | None) -> None:
    last = -1 if entry is None else entry.batch_id
    if epoch.batch_id > last + 1:
        found = "has no entry for the stream" if entry is None else f"is at batch {last}"
        raise LedgerBehind(
            f"cannot commit {_name(epoch)}: the ledger {found}, so epochs that were acknowledged are gone from the "
            f"lake (was the catalog restored from a backup?) or the stream was renamed; {_REMEDY}",
            stream=epoch.stream,
            batch_id=epoch.batch_id,
        )


_REMEDY = "use the checkpoint that belongs to the ledger, or a new stream name with a new checkpoint"


def _name(epoch: Epoch) -> str:
    return f"epoch {epoch.batch_id} of stream '{epoch.stream}'"
