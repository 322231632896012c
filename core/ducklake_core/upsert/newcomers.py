"""Whether rows that others have added meanwhile have a key of an upsert. Runs on the driver, while it commits.

Without this, whoever adds rows of other keys often enough would keep an upsert from ever committing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from ducklake_core.catalog.inlined_reader import read_inlined_changes
from ducklake_core.catalog.reader import find_table_by_id
from ducklake_core.catalog.session import Session
from ducklake_core.model import Column, InlinedTable, SnapshotSpan
from ducklake_core.pending import LookedFor, PendingTable


def tables_apart(
    session: Session, tables: Iterable[PendingTable], span: SnapshotSpan, data_path: str
) -> frozenset[int]:
    """Return the tables whose inlined rows that came in some snapshots have none of the keys that were looked for."""
    searched = (p for p in tables if p.looked_for and not p.rests_on_all_rows)
    return frozenset(p.table.table_id for p in searched if _is_apart(session, p, span, data_path))


def _is_apart(session: Session, pending: PendingTable, span: SnapshotSpan, data_path: str) -> bool:
    now = find_table_by_id(session, pending.table.table_id, span.end, data_path)
    if now is None:
        return False
    return not any(
        _may_have(session, inlined, one, span) for inlined in now.inlined_tables for one in pending.looked_for
    )


def _may_have(session: Session, inlined: InlinedTable, wanted: LookedFor, span: SnapshotSpan) -> bool:
    columns = _stored_as(wanted.keys, inlined)
    if columns is None:
        return True
    versions = read_inlined_changes(session, inlined, columns, span)
    new = versions.rows.filter(pa.array(versions.begins > span.start))
    return bool(new.num_rows) and len(wanted.index.find(new.columns)[0]) > 0


def _stored_as(keys: Sequence[Column], inlined: InlinedTable) -> list[Column] | None:
    """Return the key columns of an inlined table, None when it has them otherwise."""
    known = {c.column_id: c for c in inlined.columns}
    found = [known[key.column_id] for key in keys if key.column_id in known]
    return found if [c.type for c in found] == [key.type for key in keys] else None
