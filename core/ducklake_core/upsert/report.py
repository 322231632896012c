"""What became of the events of an upsert. A value."""

from __future__ import annotations

from dataclasses import dataclass

from ducklake_core.model import Snapshot


@dataclass(frozen=True, slots=True)
class UpsertReport:
    """How many keys an upsert changed, and how.

    `events` came; those that a later one of the same key took the place of are `superseded`. Each other one is
    `inserted`, `updated`, `deleted`, `unchanged` (the row is as the event says, or not there to be deleted) or `late`
    (the table knows a later event of the key). `truncated`: rows that went because the table was emptied.
    `files_opened`: data files that were searched for keys; `files_pruned`: those left out by statistics and partitions.
    Where all versions of a row are kept, `inserted`, `updated` and `deleted` count versions, and `unchanged` keys of
    which no version changed; an event of the same sequence as another of the batch is `superseded`, and none is `late`.
    `snapshot`: the one that was made; None if nothing changed, and in a transaction that has not committed.
    """

    events: int = 0
    superseded: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    late: int = 0
    truncated: int = 0
    files_opened: int = 0
    files_pruned: int = 0
    snapshot: Snapshot | None = None
