"""Reads the changes of all snapshots, page by page."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import text

from ducklake_core.catalog.checks.question import filled
from ducklake_core.catalog.database import Database

_PAGE = 10_000


def read_changes(database: Database) -> Iterator[tuple[int, str | None]]:
    """Yield each snapshot that has changes, and their text."""
    last = -1
    while True:
        sql = filled(
            database,
            "SELECT snapshot_id, changes_made FROM {ducklake_snapshot_changes} WHERE snapshot_id > {last}"
            " ORDER BY snapshot_id LIMIT {limit}",
            last=last,
            limit=_PAGE,
        )
        rows = database.ask(lambda session, sql=sql: session.query(text(sql)))  # type: ignore[misc] # it is called at once
        yield from ((snapshot_id, changes) for snapshot_id, changes in rows)
        if len(rows) < _PAGE:
            return
        last = rows[-1][0]
