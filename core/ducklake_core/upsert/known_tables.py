"""The tables of a lake of which rows are known, see `KnownRows`. One for each `Lake`; any thread may ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TypeAlias

from ducklake_core.model import Column, Snapshot, TableId
from ducklake_core.plan.commit_plan import MadeCommit
from ducklake_core.upsert.known_rows import KnownRows

_MOST_TABLES = 16
_MOST_BYTES = 16 * 2**20  # of each; the oldest go where all together have more than four times as much
_Followed: TypeAlias = Mapping[TableId, tuple[KnownRows, KnownRows | None]]  # before a commit, and after it
_PAUSE_SNAPSHOTS = 1_000  # after which a table that had too many rows is asked again


class KnownTables:
    """What is known of tables, by their ids."""

    def __init__(self) -> None:
        self._tables: dict[TableId, KnownRows] = {}
        self._too_large: dict[TableId, int] = {}
        self._foreseen: tuple[MadeCommit, _Followed] | None = None
        self._lock = Lock()

    def find(
        self, table_id: TableId, base: Snapshot, keys: Sequence[Column], columns: Sequence[Column]
    ) -> KnownRows | None:
        """Return what a table has at a base, if that is known for certain and has these keys and columns."""
        found = self._tables.get(table_id)
        if found is None or not found.is_certain or found.snapshot != base:
            return None
        return found if found.keys == keys and found.columns == columns else None

    def may_learn(self, table_id: TableId, base: Snapshot) -> bool:
        """Tell whether it is worth while to read all inlined rows of a table."""
        return base.snapshot_id - self._too_large.get(table_id, -_PAUSE_SNAPSHOTS) >= _PAUSE_SNAPSHOTS

    def refuse(self, table_id: TableId, base: Snapshot) -> None:
        """Note that a table has too many rows."""
        with self._lock:
            self._too_large[table_id] = base.snapshot_id

    def learn(self, table_id: TableId, rows: KnownRows) -> None:
        """Know rows of a table; certain they are when a commit of ours has followed on their snapshot."""
        with self._lock:
            self._keep(table_id, rows)

    def foresee(self, made: MadeCommit) -> None:
        """Work out what a commit that is on its way will have made of the rows; does not fail."""
        with self._lock:
            tables = [*self._tables.items()]
        try:
            self._foreseen = made, {table_id: (rows, rows.after(made, table_id)) for table_id, rows in tables}
        except Exception:  # noqa: BLE001 # COMMIT is sent: nothing here may look like its failure
            self._foreseen = None

    def follow(self, made: MadeCommit | None) -> None:
        """Know what a commit has made of the rows; None: it is not known what was committed."""
        with self._lock:
            foreseen, self._foreseen = self._foreseen, None
            known = foreseen[1] if foreseen is not None and foreseen[0] is made else {}
            for table_id, rows in [*self._tables.items()]:
                before, after = known.get(table_id, (None, None))
                if before is not rows:
                    after = None if made is None else rows.after(made, table_id)
                if after is None:
                    del self._tables[table_id]
                elif after.segments is rows.segments and after.gone is rows.gone:
                    self._tables[table_id] = after
                else:
                    self._keep(table_id, after)

    def _keep(self, table_id: TableId, rows: KnownRows) -> None:
        """Keep rows as the newest, and no more tables and bytes than there may be."""
        self._tables.pop(table_id, None)
        if rows.size_bytes > _MOST_BYTES:
            self._too_large[table_id] = rows.snapshot.snapshot_id
            return
        self._tables[table_id] = rows
        while len(self._tables) > _MOST_TABLES or sum(t.size_bytes for t in self._tables.values()) > 4 * _MOST_BYTES:
            del self._tables[next(iter(self._tables))]
