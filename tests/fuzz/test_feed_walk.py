"""Random walks under the law of the change feed: state(s) + changes(s, e] = state(e), for all snapshots that are left.

Acts are those of `test_walk`, and what else makes a feed hard: upserts, several versions of a row in one transaction,
rewrites and expiry. Longer walks: `make fuzz`. A failure prints how to repeat it.
"""

import os
from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from ducklake_core.model import TableVersion
from ducklake_core.transaction import Transaction
from tests.fixtures import feeds
from tests.fixtures.extension_exceptions import unexplained
from tests.fuzz.model import counted
from tests.fuzz.test_walk import ACTORS, SEEDS, Act, Walk, run_walks, walk_settings

STEPS = int(os.environ.get("FUZZ_STEPS", "14"))


class FeedWalk(Walk):
    """One lake with up to two tables, and its changes between any two snapshots that are left."""

    # ---- acts

    @precondition(lambda self: self._has_rows())
    @rule(actor=ACTORS, data=st.data(), seed=SEEDS)
    def upsert(self, actor: str, data: st.DataObject, seed: int) -> None:
        """New rows replace those of the same key: by us an upsert, by DuckDB a MERGE."""
        name = self._pick(data)
        table = self.tables[name]
        random = Random(seed)  # noqa: S311 # data for tests
        has_key = "k" in dict(table.columns) and table.type_of("k").lake == "int32"
        found = Counter(row["k"] for row in table.rows if row["k"] is not None) if has_key else Counter()
        keys = [key for key, count in sorted(found.items()) if count == 1 and found[key + 1] <= 1 and key < 2**31 - 1]
        if not keys:
            return
        key = random.choice(keys)
        chosen = [key, key + 1]
        rows = tuple({**row, "k": key} for row, key in zip(table.make_rows(seed, 2), chosen, strict=True))
        kept = tuple(row for row in table.rows if row["k"] not in chosen)
        self.tables[name] = replace(table, rows=kept + rows)
        names = [n for n, _ in table.columns]
        sets = ", ".join(f"{n} = new.{n}" for n in names if n != "k") or "k = new.k"
        merge = (
            f"MERGE INTO {name} USING (VALUES {table.values_sql(rows)}) new({', '.join(names)}) ON {name}.k = new.k"
            f" WHEN MATCHED THEN UPDATE SET {sets} WHEN NOT MATCHED THEN INSERT"
        )

        def ours(tx: Transaction) -> None:
            tx.upsert(name, table.arrow(rows), keys="k")

        self._step(actor, [(ours, merge)])

    @precondition(lambda self: self._has_rows())
    @rule(actor=ACTORS, data=st.data(), seed=SEEDS, count=st.sampled_from([1, 3, 12]))
    def replace_rows(self, actor: str, data: st.DataObject, seed: int, count: int) -> None:
        """Delete some rows and insert them again, then some others, in one transaction."""
        name = self._pick(data)
        before = self.tables[name]
        delete = self._delete(name, seed)
        kept = self.tables[name]
        gone = list((Counter(map(repr, before.rows)) - Counter(map(repr, kept.rows))).elements())
        rows = tuple(next(r for r in before.rows if repr(r) == text) for text in gone[:count])
        self.tables[name] = replace(kept, rows=kept.rows + rows)
        again: Act = (
            lambda tx: tx.append(name, before.arrow(rows)),
            f"INSERT INTO {name} VALUES {before.values_sql(rows)}",
        )
        self._step(actor, [delete, again] if rows else [delete])

    @precondition(lambda self: self.tables)
    @rule(
        actor=ACTORS, data=st.data(), seeds=st.lists(SEEDS, min_size=3, max_size=3), count=st.sampled_from([1, 7, 30])
    )
    def change_new_rows(self, actor: str, data: st.DataObject, seeds: list[int], count: int) -> None:
        """Insert, update and delete in one transaction: the update often changes rows that are just inserted."""
        name = self._pick(data)
        self._step(
            actor, [self._append(name, seeds[0], count), self._update(name, seeds[1]), self._delete(name, seeds[2])]
        )

    @precondition(lambda self: self._has_rows())
    @rule(actor=st.sampled_from(["us", "duckdb"]), threshold=st.sampled_from([0.0, 0.3]))
    def rewrite_files(self, actor: str, threshold: float) -> None:
        if actor == "us":
            assert self.lake.rewrite_data_files(delete_threshold=threshold).has_failed is not True
        else:
            rewrite = f"CALL ducklake_rewrite_data_files('lake', delete_threshold => {threshold})"
            self._session(actor).execute(rewrite)
        self._check()

    @precondition(lambda self: len(self.history) > 4)
    @rule(actor=st.sampled_from(["us", "duckdb"]), data=st.data())
    def expire(self, actor: str, data: st.DataObject) -> None:
        """Forget some snapshots and remove their files, sometimes from the middle."""
        retained = [s.snapshot_id for s in self.lake.snapshots()][:-1]
        gone = data.draw(st.lists(st.sampled_from(retained), min_size=1, max_size=3, unique=True))
        if actor == "us":
            self.lake.expire_snapshots(versions=gone)
            assert self.lake.cleanup_old_files(cleanup_all=True).has_failed is not True
        else:
            session = self._session(actor)
            session.execute(f"CALL ducklake_expire_snapshots('lake', versions => {gone})")
            session.execute("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
        self.opened.detach()
        self.opened.attach(self.catalog.attach)
        self._check()

    # ---- checks

    def _check(self) -> None:
        head = self.lake.snapshots()[-1].snapshot_id
        self.history[head] = dict(self.tables)
        retained: list[int] = [s.snapshot_id for s in self.lake.snapshots()]
        self.history = self._complete(set(retained))
        self.sessions.renew(self.catalog)
        for name, table in sorted(self.tables.items()):
            self._same(table.counted(), counted(self.lake.table(name).read()), f"us, {name} at the head")
            self._check_law(name, retained)

    def _check_law(self, name: str, retained: list[int]) -> None:
        version = self.lake.table(name).version
        there = [i for i in retained if i >= version.begin_snapshot]
        states = {i: feeds.state_of(self.lake, version, i) for i in there}
        runs = contiguous(there)
        singles = {b: feeds.feed_of(self.lake, version, a, b) for run in runs for a, b in pairwise(run)}
        for run in runs:
            self._check_extension(name, version, run[0], run[-1])
            for a, b in combinations(run, 2):
                task = feeds.task_of(self.lake, version, a, b)
                events = feeds.read(self.lake, [task])
                where = f"{name}, ({a}, {b}]"
                assert feeds.applied(states[a], events) == states[b], where
                assert events == sum((singles[i] for i in range(a + 1, b + 1)), Counter()), where
                feeds.check_sizes(self.lake, version, a, b, events)
                images = Counter((e.snapshot, e.row_id, e.kind) for e in events.elements() if "image" in e.kind)
                assert max(images.values(), default=1) == 1, where
                assert feeds.shared_feed_of(self.lake, task, 1 + (a + b) % 5) == events, where
                assert feeds.located_feed_of(self.lake, task, of_every=1 + (a + b) % 2) == events, where
                net = feeds.feed_of(self.lake, version, a, b, net=True)
                net_task = feeds.task_of(self.lake, version, a, b, net=True)
                assert feeds.located_feed_of(self.lake, net_task, of_every=1 + a % 2) == net, f"net, {where}"
                assert feeds.net_applied(states[a], net) == states[b], f"net, {where}"

    def _check_extension(self, name: str, version: TableVersion, start: int, end: int) -> None:
        if end != self.lake.snapshots()[-1].snapshot_id or start == end:
            return
        ours = feeds.feed_of(self.lake, version, start, end)
        theirs = feeds.extension_feed_of(self.fresh, name, start, end)
        found = unexplained(ours, theirs, self.lake, version, start, end)
        assert not found, f"{name}, ({start}, {end}]: missing {found - theirs}, surplus {found - ours}"


def contiguous(snapshots: list[int]) -> list[list[int]]:
    """Split ascending ids into runs without holes."""
    runs: list[list[int]] = []
    for i in snapshots:
        if runs and runs[-1][-1] == i - 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


@pytest.mark.fuzz
@pytest.mark.slow
@pytest.mark.timeout(0)  # `make fuzz` takes as long as it is told to
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_states_and_changes_agree_after_every_step(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    run_walks(FeedWalk, request, tmp_path, kind, settings(walk_settings(), stateful_step_count=STEPS))
