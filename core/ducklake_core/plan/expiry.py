"""Which snapshots expire, and who keeps some of them. Pure.

The newest never does. A reader of a change feed that has read snapshot `s` needs every later one, and `s` itself as
what the next one is compared with (`feed.history.find_gap`). The snapshot of a stream's last epoch is kept with all
later ones, too; and so are those that somebody who is about to commit does not see yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from ducklake_core.errors import ObjectNotFound
from ducklake_core.model import Consumer, LedgerEntry, SnapshotId

NOTHING_ASKED = (
    "nothing was asked for: give an age or set the lake's option 'expire_older_than'; Lake.expire_snapshots also takes "
    "keep_last or versions without an age"
)
_FORGET_CONSUMER = "if it is gone for good, Lake.forget_consumer removes it"
_FORGET_STREAM = "if it has ended for good, Lake.forget_stream removes it"
_MOST_NAMED = 10


class SnapshotAge(NamedTuple):
    """A snapshot and when it was made."""

    snapshot_id: SnapshotId
    time: datetime


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to expire: what was made before a time, and all but the newest; or these alone. All None: nothing.

    `is_checked`: the versions were there when expiry began, and those that are gone by now are no mistake.
    """

    before: datetime | None = None
    keep_last: int | None = None
    versions: tuple[SnapshotId, ...] | None = None
    is_checked: bool = False

    @property
    def is_nothing(self) -> bool:
        return self.before is None and self.keep_last is None and self.versions is None


@dataclass(frozen=True, slots=True)
class Keeper:
    """Somebody who needs a snapshot and all later ones; `why` is for people."""

    snapshot_id: SnapshotId
    why: str


@dataclass(frozen=True, slots=True)
class Expiry:
    """The snapshots that expire, oldest first, those that stay, and what held back others."""

    expired: tuple[SnapshotId, ...]
    retained: tuple[SnapshotId, ...]
    held_back: tuple[str, ...]


def keepers_of(consumers: Iterable[Consumer], entries: Iterable[LedgerEntry], now: datetime) -> list[Keeper]:
    """Return who needs snapshots, the slowest first; consumers that have not been heard of for too long do not."""
    readers = [
        Keeper(c.snapshot_id, f"consumer '{c.name}' has read up to snapshot {c.snapshot_id}; {_FORGET_CONSUMER}")
        for c in consumers
        if c.expires_at is None or c.expires_at > now
    ]
    writers = [
        Keeper(e.snapshot_id, f"stream '{e.stream}' has its last epoch in snapshot {e.snapshot_id}; {_FORGET_STREAM}")
        for e in entries
        if e.snapshot_id is not None
    ]
    return sorted([*readers, *writers], key=lambda keeper: keeper.snapshot_id)


def keepers_of_unseen(ages: Sequence[SnapshotAge], unseen: Sequence[SnapshotId]) -> list[Keeper]:
    """Return who keeps the newest snapshots: an open transaction that does not see them. `unseen`: newest first."""
    newest_first = [age.snapshot_id for age in reversed(ages)]
    together = [i for i, known in zip(unseen, newest_first, strict=False) if i == known]
    if not together:
        return []
    first = together[-1]
    why = f"another session has a transaction open since before snapshot {first}, and may take its id when it commits"
    return [Keeper(first, why)]


def plan_expiry(ages: Sequence[SnapshotAge], wanted: Wanted, keepers: Sequence[Keeper]) -> Expiry:
    """Decide by all snapshots of the lake, oldest first. Raises ObjectNotFound for versions that are not there."""
    chosen = _chosen(ages, wanted)
    floor = min((keeper.snapshot_id for keeper in keepers), default=None)
    expired = [i for i in chosen if floor is None or i < floor]
    gone = set(expired)
    retained = tuple(age.snapshot_id for age in ages if age.snapshot_id not in gone)
    return Expiry(tuple(expired), retained, _held_back(ages, wanted, chosen, keepers))


def _chosen(ages: Sequence[SnapshotAge], wanted: Wanted) -> list[SnapshotId]:
    if wanted.is_nothing:
        return []
    older = ages[: max(0, len(ages) - (wanted.keep_last or 1))]
    if wanted.versions is not None:
        if not wanted.is_checked:
            _check_there(ages, wanted.versions)
        versions = set(wanted.versions)
        return [age.snapshot_id for age in older if age.snapshot_id in versions]
    return [age.snapshot_id for age in older if wanted.before is None or age.time < wanted.before]


def _check_there(ages: Sequence[SnapshotAge], versions: Iterable[SnapshotId]) -> None:
    missing = sorted(set(versions) - {age.snapshot_id for age in ages})
    if missing:
        named = ", ".join(map(str, missing[:_MOST_NAMED])) + (", …" if len(missing) > _MOST_NAMED else "")
        raise ObjectNotFound(
            f"cannot expire snapshot {named}: the lake has none of that id, it never was or has expired; "
            "Lake.snapshots lists those there are",
            snapshots=missing,
        )


def _held_back(
    ages: Sequence[SnapshotAge], wanted: Wanted, chosen: Sequence[SnapshotId], keepers: Sequence[Keeper]
) -> tuple[str, ...]:
    if wanted.is_nothing:
        return (NOTHING_ASKED,)
    found = [k.why for k in keepers if chosen and k.snapshot_id <= chosen[-1]]
    if len(found) > _MOST_NAMED:
        found = [*found[:_MOST_NAMED], f"{len(found) - _MOST_NAMED} more consumers and streams"]
    if wanted.versions is not None and ages and ages[-1].snapshot_id in wanted.versions:
        found.append(f"snapshot {ages[-1].snapshot_id} is the newest, which never expires")
    return tuple(found)
