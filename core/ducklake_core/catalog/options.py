"""Reads and writes the options of a lake: rows of `ducklake_metadata`, which belong to no snapshot (format §14)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import and_, delete, insert

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.spec.options import Options, Scope
from ducklake_core.spec.rows import MetadataRow


def options_of(rows: Iterable[MetadataRow]) -> Options:
    """Return the options of every scope from the rows of `ducklake_metadata`."""
    options: dict[Scope, dict[str, str]] = defaultdict(dict)
    for row in rows:
        options[row.scope or None, row.scope_id if row.scope else None][row.key] = row.value
    return options


def write_option(database: Database, name: str, value: str, scope: str | None, scope_id: int | None) -> None:
    """Set one option in one scope, replacing what it had."""
    metadata = database.tables.ducklake_metadata
    same_scope = metadata.c.scope.is_(None) if scope is None else metadata.c.scope == scope
    same_id = metadata.c.scope_id.is_(None) if scope_id is None else metadata.c.scope_id == scope_id
    remove = delete(metadata).where(and_(metadata.c.key == name, same_scope, same_id))
    row = {"key": name, "value": value, "scope": scope, "scope_id": scope_id}

    def replace_row(session: Session) -> None:
        session.run([Statement(remove)])
        session.write_and_commit([Statement(insert(metadata), row)])

    database.write_alone(f"set option '{name}' in", replace_row)
