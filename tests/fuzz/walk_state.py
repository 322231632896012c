"""What a random walk knows of its lake, and what must hold after each step: the acts are in `test_walk`."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fuzz.model import PROMOTIONS, Rows, TableModel, counted, filters_of
from tests.fuzz.places import Sessions


class WalkState(RuleBasedStateMachine):
    """One lake with up to two tables, and everything its snapshots should hold."""

    make_catalog: Callable[[], Catalog]
    sessions: Sessions
    lake: Lake

    def __init__(self) -> None:
        super().__init__()
        self.catalog = type(self).make_catalog()
        self.opened = self.sessions.opened
        self.fresh = self.sessions.fresh
        self.tables: dict[str, TableModel] = {}
        self.history: dict[int, dict[str, TableModel]] = {}
        self.digests: dict[tuple[int, str], int] = {}
        self.sorted_once = False
        self.bucketed: set[str] = set()
        self.made = 0

    def teardown(self) -> None:
        if hasattr(self, "lake"):
            try:
                assert self.lake.doctor(full=True) == []
            finally:
                self.lake.close()
                self.sessions.reset()

    # ---- what there is to act on

    def _pick(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.tables)))

    def _has_rows(self) -> bool:
        return any(table.rows for table in self.tables.values())

    def _renamable(self) -> list[tuple[str, str]]:
        return [(n, c) for n, table in sorted(self.tables.items()) for c, _ in table.columns if c not in table.keys]

    def _droppable(self, table: TableModel) -> list[str]:
        # Filters need a column that is no list, struct or map.
        names = [n for n, _ in table.columns if n not in table.keys]
        scalars = [n for n, t in table.columns if t.is_scalar]
        return [n for n in names if len(scalars) > 1 or n not in scalars]

    def _promotable(self) -> list[tuple[str, str, tuple[str, ...]]]:
        return [
            (name, column, PROMOTIONS[type_.lake])
            for name, table in sorted(self.tables.items())
            for column, type_ in table.columns
            if type_.lake in PROMOTIONS and column not in table.keys
        ]

    def _structs(self) -> list[tuple[str, str]]:
        return [(n, c) for n, table in sorted(self.tables.items()) for c, t in table.columns if t.is_struct]

    def _key(self, name: str) -> str:
        scalars = [(n, t) for n, t in self.tables[name].columns if t.is_scalar]
        return next((n for n, t in scalars if t.lake == "int32"), scalars[0][0])

    # ---- checks

    def _check(self) -> None:
        head = self.lake.snapshots()[-1].snapshot_id
        self.history[head] = dict(self.tables)
        self.sessions.renew(self.catalog)
        retained: set[int] = {s.snapshot_id for s in self.lake.snapshots()}
        self.history = self._complete(retained)
        looks = [(self.fresh, "new session"), (self.opened, "open session")]
        for snapshot, tables in sorted(self.history.items()):
            for name, table in sorted(tables.items()):
                found = self.lake.table(name, at=snapshot)
                self._same(table.counted(), counted(found.read()), f"us, {name} at {snapshot}")
                assert found.count() == len(table.rows)
        for session, who in looks:
            for name, table in sorted(self.tables.items()):
                self._same(table.counted(), counted(session.arrow(f"FROM {name}")), f"{who}, {name} at the head")
                self._check_bounds(session, who, name, table, head)
            self._check_past(session, who)

    def _check_past(self, session: Oracle, who: str) -> None:
        """Every snapshot reads as it did when it was the head and was compared row by row; all in one query."""
        places = [(i, name) for i, tables in sorted(self.history.items()) for name in sorted(tables)]
        if not places:
            return
        query = " UNION ALL ".join(
            f"SELECT {i}, '{name}', (SELECT count(*) FROM {name} AT (VERSION => {i})),"
            f" (SELECT sum(hash(r)) FROM (FROM {name} AT (VERSION => {i})) r)"
            for i, name in places
        )
        for snapshot, name, count, digest in session.query(query):
            where = f"{who}, {name} at {snapshot}"
            assert count == len(self.history[snapshot][name].rows), where
            assert self.digests.setdefault((snapshot, name), digest) == digest, where

    def _complete(self, retained: set[int]) -> dict[int, dict[str, TableModel]]:
        """Give every snapshot its tables: one step may have made several, all but the last as before or as after."""
        known = {i: t for i, t in self.history.items() if i in retained}
        for missing in sorted(retained - known.keys()):
            known[missing] = known.get(missing - 1, {})
        return known

    def _check_bounds(self, session: Oracle, who: str, name: str, table: TableModel, head: int) -> None:
        """What DuckDB answers from statistics: they must not be narrower than the rows."""
        where = filters_of(table, head)
        kept = sum(where.keeps(row) for row in table.rows)
        assert self.lake.table(name).count(where.sql) == kept, f"us, {where.sql}"
        assert session.query(f"SELECT count(*) FROM {name} WHERE {where.sql}") == [(kept,)], f"{who}, {where.sql}"
        names = [column for column, _ in table.columns]
        counts = session.query(f"SELECT {', '.join(f'count({n})' for n in names)} FROM {name}")
        assert counts == [tuple(sum(row[n] is not None for row in table.rows) for n in names)], f"{who}, {name}"
        for index in {head % len(names), (head + 1) % len(names)}:
            column = replace(table, columns=table.columns[index : index + 1])
            found = counted(session.arrow(f"SELECT {names[index]} FROM {name} ORDER BY {names[index]}"))
            self._same(_unsigned(column.counted()), _unsigned(found), f"{who}, {name} by {names[index]}")

    def _same(self, expected: Rows, found: Rows, where: str) -> None:
        assert found == expected, f"{where}: missing {expected - found}, surplus {found - expected}"


def _unsigned(rows: Rows) -> Rows:
    """Return rows of one column without the sign of zero, which DuckDB loses where it sorts."""
    counts: Rows = Counter()
    for (value,), count in rows.items():
        counts[("0.0" if value == "-0.0" else value,)] += count
    return counts
