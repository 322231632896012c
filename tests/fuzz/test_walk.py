"""Random walks: anything by us or by DuckDB, and after each step both read the same at every snapshot.

Both means: us, a DuckDB session that is new, and one that has been open since before the step and has its caches. The
third opinion is `TableModel`. Longer walks: `make fuzz` (FUZZ_EXAMPLES=2000). A failure prints how to repeat it.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, currently_in_test_context, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from ducklake_core import Lake
from ducklake_core.transaction import Transaction
from tests.fixtures.oracle import Oracle
from tests.fuzz.model import (
    PLAIN,
    SCALARS,
    TYPES,
    TableModel,
    Type,
    default_literal,
    filters_of,
    literal,
    promoted,
    struct_of,
)
from tests.fuzz.places import Sessions, postgres_catalogs, sqlite_catalogs
from tests.fuzz.walk_state import WalkState

SEEDS = st.integers(0, 2**32)
ACTORS = st.sampled_from(["us", "duckdb", "duckdb that was open"])
TEST_WALKS = int(os.environ.get("FUZZ_WALKS", "4"))
STEPS = int(os.environ.get("FUZZ_STEPS", "10"))

# Tables with no inlined table yet, whose columns have changed. When an insert by the extension makes the inlined one,
# it notes no schema version for it: sessions opened after the next change of any table take its columns for older ones,
# and read nulls. Ours notes one (tests/differential/test_inserts.py).
ALTERED_BEFORE_INLINED = """
    SELECT table_id FROM ducklake_column WHERE table_id NOT IN (SELECT table_id FROM ducklake_inlined_data_tables)
    GROUP BY table_id HAVING min(begin_snapshot) < max(begin_snapshot) OR max(end_snapshot) IS NOT NULL
"""


class Walk(WalkState):
    """One lake with up to two tables, on which everybody acts."""

    @initialize(actor=ACTORS)
    def create_lake(self, actor: str) -> None:
        if actor == "us":
            Lake.create(self.catalog.url, self.catalog.data_path).close()
            self.opened.attach(self.catalog.attach)
        else:
            self.opened.attach(self.catalog.attach, data_path=self.catalog.data_path)
        self.lake = Lake.open(self.catalog.url)
        self._check()

    # ---- acts

    @precondition(lambda self: len(self.tables) < 2)
    @rule(actor=ACTORS, types=st.lists(st.sampled_from(TYPES), min_size=1, max_size=5))
    def create_table(self, actor: str, types: list[Type]) -> None:
        self.made += 1
        name = f"t{self.made}"
        columns = (("k", SCALARS["int32"]), *((f"c{i}", t) for i, t in enumerate(types, 1)))
        declared = ", ".join(f"{n} {t.sql}" for n, t in columns)
        self._do(
            actor,
            lambda tx: tx.create_table(name, {n: t.lake for n, t in columns}),
            f"CREATE TABLE {name} ({declared})",
        )
        self.tables[name] = TableModel(columns, names_used=frozenset(n for n, _ in columns))
        self._check()

    @precondition(lambda self: self.tables)
    @rule(actor=ACTORS, data=st.data(), seed=SEEDS, count=st.sampled_from([1, 2, 4, 7, 15, 30]))
    def append(self, actor: str, data: st.DataObject, seed: int, count: int) -> None:
        self._step(actor, [self._append(self._pick(data), seed, count)])

    @precondition(lambda self: self._has_rows())
    @rule(actor=ACTORS, data=st.data(), seed=SEEDS)
    def delete(self, actor: str, data: st.DataObject, seed: int) -> None:
        self._step(actor, [self._delete(self._pick(data), seed)])

    @precondition(lambda self: self._has_rows())
    @rule(actor=ACTORS, data=st.data(), seed=SEEDS)
    def update(self, actor: str, data: st.DataObject, seed: int) -> None:
        self._step(actor, [self._update(self._pick(data), seed)])

    @precondition(lambda self: self.tables)
    @rule(actor=ACTORS, data=st.data(), seeds=st.lists(SEEDS, min_size=2, max_size=4))
    def several_at_once(self, actor: str, data: st.DataObject, seeds: list[int]) -> None:
        """Several changes of rows in one transaction: one snapshot."""
        kinds = [data.draw(st.sampled_from(["append", "delete", "update"])) for _ in seeds]
        acts = []
        for kind, seed in zip(kinds, seeds, strict=True):
            name = self._pick(data)
            match kind:
                case "append":
                    acts.append(self._append(name, seed, data.draw(st.sampled_from([1, 3, 12]))))
                case "delete":
                    acts.append(self._delete(name, seed))
                case "update":
                    acts.append(self._update(name, seed))
        self._step(actor, acts)

    @precondition(lambda self: self.tables)
    @rule(actor=ACTORS, data=st.data(), type_=st.sampled_from(TYPES), seed=SEEDS)
    def add_column(self, actor: str, data: st.DataObject, type_: Type, seed: int) -> None:
        name = self._pick(data)
        table = self.tables[name]
        column = table.fresh_name()
        default = table.with_column(column, type_, None).make_rows(seed, 1)[0][column] if type_.is_scalar else None
        # A default 'NULL' cannot be told from none in the catalog; the extension reads '' and blobs back differently,
        # and takes true and false for expressions, which it refuses.
        if type_.lake in ("blob", "boolean") or default in ("NULL", ""):
            default = None
        clause = f" DEFAULT {default_literal(default)}" if default is not None else ""
        given = UUID(default) if type_.lake == "uuid" and default is not None else default
        self._do(
            actor,
            lambda tx: tx.add_column(name, column, type_.lake, given),
            f"ALTER TABLE {name} ADD COLUMN {column} {type_.sql}{clause}",
        )
        self.tables[name] = table.with_column(column, type_, default)
        self._check()

    @precondition(lambda self: self._renamable())
    @rule(actor=ACTORS, data=st.data())
    def rename_column(self, actor: str, data: st.DataObject) -> None:
        name, column = data.draw(st.sampled_from(self._renamable()))
        table = self.tables[name]
        new = table.fresh_name()
        self._do(
            actor,
            lambda tx: tx.rename_column(name, column, new),
            f"ALTER TABLE {name} RENAME COLUMN {column} TO {new}",
        )
        self.tables[name] = table.renamed(column, new)
        self._check()

    @precondition(lambda self: any(self._droppable(t) for t in self.tables.values()))
    @rule(actor=ACTORS, data=st.data())
    def drop_column(self, actor: str, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([n for n, t in self.tables.items() if self._droppable(t)]))
        table = self.tables[name]
        column = data.draw(st.sampled_from(self._droppable(table)))
        self._do(actor, lambda tx: tx.drop_column(name, column), f"ALTER TABLE {name} DROP COLUMN {column}")
        self.tables[name] = table.without(column)
        self._check()

    @precondition(lambda self: self._promotable())
    @rule(actor=ACTORS, data=st.data())
    def promote_column(self, actor: str, data: st.DataObject) -> None:
        name, column, types = data.draw(st.sampled_from(self._promotable()))
        new = SCALARS[data.draw(st.sampled_from(types))]
        alter: Act = (
            lambda tx: tx.promote_column(name, column, new.lake),
            f"ALTER TABLE {name} ALTER COLUMN {column} SET DATA TYPE {new.sql}",
        )
        self.tables[name] = self.tables[name].retyped(column, new, lambda value: promoted(value, new))
        # The extension keeps statistics under the snapshot's next_file_id, which its own promotion leaves alone: a
        # session that reads before and after meets them with another type, and ends with an INTERNAL error.
        had_rows = any(tables[name].rows for tables in self.history.values() if name in tables)
        self._step("us" if had_rows else actor, [alter])

    @precondition(lambda self: self._structs())
    @rule(actor=ACTORS, data=st.data(), kind=st.sampled_from(["add", "rename", "drop"]))
    def change_struct(self, actor: str, data: st.DataObject, kind: str) -> None:
        name, column = data.draw(st.sampled_from(self._structs()))
        table = self.tables[name]
        fields = table.type_of(column).fields
        chosen = data.draw(st.sampled_from([n for n, _ in fields]))
        self.made += 1
        new = f"f{self.made}"
        if kind == "drop" and len(fields) == 1:
            kind = "rename"
        match kind:
            case "add":
                struct = struct_of(*fields, (new, PLAIN))
                self._do(
                    actor,
                    lambda tx: tx.add_column(name, f"{column}.{new}", "varchar"),
                    f"ALTER TABLE {name} ADD COLUMN {column}.{new} VARCHAR",
                )
                self.tables[name] = table.retyped(column, struct, lambda v: {**v, new: None})
            case "rename":
                struct = struct_of(*((new if n == chosen else n, t) for n, t in fields))
                self._do(
                    actor,
                    lambda tx: tx.rename_column(name, f"{column}.{chosen}", new),
                    f"ALTER TABLE {name} RENAME COLUMN {column}.{chosen} TO {new}",
                )
                self.tables[name] = table.retyped(
                    column, struct, lambda v: {(new if n == chosen else n): x for n, x in v.items()}
                )
            case "drop":
                struct = struct_of(*((n, t) for n, t in fields if n != chosen))
                self._do(
                    actor,
                    lambda tx: tx.drop_column(name, f"{column}.{chosen}"),
                    f"ALTER TABLE {name} DROP COLUMN {column}.{chosen}",
                )
                self.tables[name] = table.retyped(column, struct, lambda v: {n: x for n, x in v.items() if n != chosen})
        self._check()

    @precondition(lambda self: self.tables)
    @rule(actor=ACTORS, data=st.data(), bucketed=st.booleans())
    def set_partitioning(self, actor: str, data: st.DataObject, bucketed: bool) -> None:  # noqa: FBT001 # hypothesis
        name = self._pick(data)
        column = self._key(name)
        # For `k = 3` the extension leaves out every file without a bucket, also those from before the partitioning.
        if name in self.bucketed:
            return
        if bucketed and not any(tables[name].rows for tables in self.history.values() if name in tables):
            self.bucketed.add(name)
            expression = f"bucket(3, {column})"
        else:
            expression = column
        self._do(
            actor,
            lambda tx: tx.set_partitioning(name, [expression]),
            f"ALTER TABLE {name} SET PARTITIONED BY ({expression})",
        )
        self.tables[name] = replace(self.tables[name], keys=self.tables[name].keys | {column})
        self._check()

    @precondition(lambda self: self.tables)
    @rule(actor=ACTORS, data=st.data())
    def set_sort_order(self, actor: str, data: st.DataObject) -> None:
        name = self._pick(data)
        column = self._key(name)
        if self.tables[name].type_of(column).lake in ("float32", "float64"):
            return  # DuckDB loses the sign of zero where it sorts
        self.sorted_once = True
        self._do(
            actor,
            lambda tx: tx.set_sort_order(name, [f"{column} DESC"]),
            f"ALTER TABLE {name} SET SORTED BY ({column} DESC)",
        )
        self.tables[name] = replace(self.tables[name], keys=self.tables[name].keys | {column})
        self._check()

    @rule(actor=ACTORS, limit=st.sampled_from([0, 5, 1000]))
    def set_inlining_limit(self, actor: str, limit: int) -> None:
        """Set the lake's limit. A session that is open does not see another's change: it goes on with the old one."""
        if actor == "us":
            self.lake.set_option("data_inlining_row_limit", limit)
        else:
            self._session(actor).execute(f"CALL lake.set_option('data_inlining_row_limit', {limit})")
        self._check()

    # The extension computes wrong delete positions when it flushes sorted tables (duckdb/ducklake#1385). A flush drops
    # tables of inlined rows that are empty now; other sessions of the extension that remember them cannot read any more
    # ("Current transaction is aborted"): the open one flushes here, or attaches again after us.
    @precondition(lambda self: self._has_rows())
    @rule(actor=st.sampled_from(["us", "us", "duckdb that was open"]), memory_bytes=st.sampled_from([1, 2**28]))
    def flush(self, actor: str, memory_bytes: int) -> None:
        if actor == "us" or self.sorted_once:
            dropped = self.lake.flush_inlined(memory_bytes=memory_bytes).dropped_tables
            if dropped:
                self.opened.detach()
                self.opened.attach(self.catalog.attach)
        else:
            self.opened.execute("CALL ducklake_flush_inlined_data('lake')")
        self._check()

    @precondition(lambda self: self._has_rows())
    @rule(actor=ACTORS)
    def merge_files(self, actor: str) -> None:
        if actor == "us":
            assert self.lake.merge_adjacent_files().has_failed is not True
        else:
            self._session(actor).execute("CALL ducklake_merge_adjacent_files('lake')")
        self._check()

    # ---- how acts are done

    def _append(self, name: str, seed: int, count: int) -> "Act":
        table = self.tables[name]
        rows = table.make_rows(seed, count)
        self.tables[name] = replace(table, rows=table.rows + rows)
        return lambda tx: tx.append(name, table.arrow(rows)), f"INSERT INTO {name} VALUES {table.values_sql(rows)}"

    def _delete(self, name: str, seed: int) -> "Act":
        table = self.tables[name]
        where = filters_of(table, seed)
        self.tables[name] = replace(table, rows=tuple(r for r in table.rows if not where.keeps(r)))
        return lambda tx: tx.delete(name, where.sql), f"DELETE FROM {name} WHERE {where.sql}"

    def _update(self, name: str, seed: int) -> "Act":
        table = self.tables[name]
        where = filters_of(table, seed)
        column, type_ = table.columns[seed % len(table.columns)]
        value = table.make_rows(seed, 1)[0][column]
        rows = tuple({**r, column: value} if where.keeps(r) else r for r in table.rows)
        self.tables[name] = replace(table, rows=rows)
        sql = f"UPDATE {name} SET {column} = {literal(value, type_)} WHERE {where.sql}"
        return lambda tx: tx.update(name, {column: value}, where.sql), sql

    def _step(self, actor: str, acts: "list[Act]") -> None:
        if actor == "us" or self.catalog.query(ALTERED_BEFORE_INLINED):
            with self.lake.transaction() as tx:
                for ours, _ in acts:
                    ours(tx)
        else:
            statements = "; ".join(sql for _, sql in acts)
            _note(statements[:400])
            self._session(actor).execute(f"BEGIN; {statements}; COMMIT" if len(acts) > 1 else statements)
        self._check()

    def _do(self, actor: str, ours: Callable[[Transaction], object], sql: str) -> None:
        if actor == "us":
            with self.lake.transaction() as tx:
                ours(tx)
        else:
            _note(sql)
            self._session(actor).execute(sql)

    def _session(self, actor: str) -> Oracle:
        if actor == "duckdb that was open":
            return self.opened
        self.sessions.renew(self.catalog)
        return self.fresh


def _note(text: str) -> None:
    """Let hypothesis print this when the walk fails; walks of `test_found_walks` are not its own."""
    if currently_in_test_context():
        note(text)


Act = tuple[Callable[[Transaction], object], str]


@pytest.mark.fuzz
@pytest.mark.slow
@pytest.mark.timeout(0)  # `make fuzz` takes as long as it is told to
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_reader_sees_the_same_after_every_step(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    run_walks(Walk, request, tmp_path, kind, walk_settings())


def run_walks(walk: type["Walk"], request: pytest.FixtureRequest, directory: Path, kind: str, chosen: settings) -> None:
    """Run walks on one kind of catalog, with two DuckDB processes that look on; leave nothing behind."""
    sessions = Sessions()
    catalogs = (
        sqlite_catalogs(directory)
        if kind == "sqlite"
        else postgres_catalogs(directory, request.getfixturevalue("postgres_server"))
    )
    try:
        with catalogs as make:
            here = type("WalkHere", (walk,), {"make_catalog": staticmethod(make), "sessions": sessions})
            run_state_machine_as_test(here, settings=chosen)
    finally:
        sessions.close()
        shutil.rmtree(directory, ignore_errors=True)


def walk_settings() -> settings:
    """Return a few walks, printed as they are, for the tests; many, made as short as can be, for `make fuzz`."""
    current = settings.default
    assert current is not None
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    walk = settings(current, stateful_step_count=STEPS, suppress_health_check=checks, report_multiple_bugs=False)
    if settings.get_current_profile_name() == "fuzz":
        return walk
    return settings(walk, max_examples=TEST_WALKS, phases=[Phase.explicit, Phase.reuse, Phase.generate])
