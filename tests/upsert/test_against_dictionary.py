"""Random streams of events, cut into random batches, beside maintenance and a second writer: table = dictionary.

The dictionary applies one event after the other, and knows nothing of batches, files or catalogs. DuckDB reads the same
at every snapshot, and the change feed applied to a copy gives the table. One of the two writers leaves the search of
files to tasks. Longer: `make fuzz`.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ducklake_core import Lake, UpsertMemory
from tests.fixtures import feeds
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.tasks import PickledTasks
from tests.fuzz.model import canonical
from tests.fuzz.places import postgres_catalogs, sqlite_catalogs

EXAMPLES = int(os.environ.get("UPSERT_EXAMPLES", "3"))
KEYS = 30
Row: TypeAlias = dict[str, Any]  # Any: values of any type


@dataclass(frozen=True, slots=True)
class Order:
    """Where the order of events is kept: nowhere, in the table, or beside it."""

    name: str
    columns: dict[str, str]
    arguments: dict[str, Any]  # Any: arguments of upsert

    @property
    def has_sequence(self) -> bool:
        return "sequence_by" in self.arguments

    @property
    def says_part(self) -> bool:
        """Whether nulls and columns that an event lacks leave what the row has."""
        return "fill_missing" in self.arguments


TABLE = {"a": "int32", "b": "varchar", "x": "float64", "l": "int32[]"}
DELETES = {"keys": ["a", "b"], "apply_as_deletes": "op = 'd'"}
SEQUENCE = {"sequence_by": ["s", "t"]}
ORDERS = [
    Order("arrival", TABLE, {**DELETES, "except_columns": ["op", "s", "t"]}),
    Order("in the table", {**TABLE, "s": "int64", "t": "varchar"}, {**DELETES, **SEQUENCE, "except_columns": ["op"]}),
    Order("beside it", TABLE, {**DELETES, **SEQUENCE, "except_columns": ["op", "s", "t"]}),
]
PARTS = {"ignore_null_updates": True, "fill_missing": True}
ORDERS += [Order(f"{o.name}, parts of rows", o.columns, {**o.arguments, **PARTS}) for o in ORDERS[1:]]
EVENTS = st.tuples(
    st.integers(0, KEYS - 1), st.integers(0, 6), st.sampled_from("xy"), st.sampled_from("uuud"), st.integers(0, 2)
)
BATCHES = st.one_of(st.lists(EVENTS, min_size=1, max_size=6), st.lists(EVENTS, min_size=25, max_size=60))
CARE = st.sampled_from(["flush", "merge", "rewrite", "duckdb flush", "duckdb merge", "duckdb rewrite", "append"])
STEPS = st.lists(st.one_of(st.tuples(st.sampled_from([0, 1]), BATCHES), CARE), min_size=4, max_size=10)


@dataclass(slots=True)
class Dictionary:
    """What a table must hold after some events."""

    order: Order
    rows: dict[tuple[int, str], Row] = field(default_factory=dict)
    sequences: dict[tuple[int, str], tuple[int, str]] = field(default_factory=dict)

    def apply_all(self, events: list[Row]) -> None:
        """Apply a batch. Where events say a part of their row, those of a batch are put into their order first."""
        if self.order.says_part:
            events = sorted((e for e in events if not self._is_late(e)), key=lambda e: (e["s"], e["t"]))
        for event in events:
            if not self._is_late(event):
                self._apply(event)

    def _is_late(self, event: Row) -> bool:
        sequence = (event["s"], event["t"])
        return self.order.has_sequence and sequence < self.sequences.get((event["a"], event["b"]), sequence)

    def _apply(self, event: Row) -> None:
        key, sequence = (event["a"], event["b"]), (event["s"], event["t"])
        self.sequences[key] = sequence
        if event["op"] == "d":
            self.rows.pop(key, None)
            return
        old = self.rows.get(key, {}) if self.order.says_part else {}
        told = {name: event.get(name) for name in self.order.columns}
        self.rows[key] = {name: old.get(name) if value is None else value for name, value in told.items()}


def event_of(drawn: tuple[int, int, str, str, int]) -> Row:
    number, s, t, op, value = drawn
    values = {"x": (None, 1.5, float("inf"))[value], "l": (None, [], [number, None])[value]}
    return {"a": number // 2, "b": "pq"[number % 2], **values, "s": s, "t": t, "op": op}


def typed(events: list[Row]) -> pa.Table:
    """Return events as Arrow has them, also columns of nulls in their types."""
    types = {"a": pa.int32(), "s": pa.int64(), "x": pa.float64(), "l": pa.list_(pa.int32())}
    return pa.table({name: pa.array([e[name] for e in events], types.get(name, pa.string())) for name in events[0]})


@dataclass(slots=True)
class Stage:
    """One lake, two writers of ours, DuckDB, and the dictionary."""

    writers: list[Lake]
    oracle: Oracle
    known: Dictionary
    seen: dict[int, Counter[str]] = field(default_factory=dict)

    def act(self, step: str | tuple[int, list[Any]]) -> None:
        lake = self.writers[0]
        match step:
            case (int(writer), list(drawn)):
                events = [event_of(one) for one in drawn]
                if self.known.order.says_part and len(drawn) % 2:
                    events = [{name: value for name, value in event.items() if name != "l"} for event in events]
                self.known.apply_all(events)
                self._upsert(writer, typed(events))
            case "flush":
                lake.flush_inlined("t")
            case "merge":
                lake.merge_adjacent_files("t")
            case "rewrite":
                lake.rewrite_data_files("t", delete_threshold=0.0)
            case "duckdb flush":
                self.oracle.execute("CALL ducklake_flush_inlined_data('lake')")
            case "duckdb merge":
                self.oracle.execute("CALL ducklake_merge_adjacent_files('lake')")
            case "duckdb rewrite":
                self.oracle.execute("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.0)")
            case "append":
                self._append()

    def _upsert(self, writer: int, events: pa.Table) -> None:
        if writer == 0:
            self.writers[0].upsert("t", events, **self.known.order.arguments)
            return
        with self.writers[1].transaction() as tx:
            memory = UpsertMemory.searched_by(PickledTasks())
            tx.upsert("t", events, memory=memory, **self.known.order.arguments)

    def _append(self) -> None:
        """Another adds a row of a key that nobody has."""
        key = (1000 + len(self.known.rows), "z")
        if key not in self.known.rows:
            row = event_of((0, 0, "x", "u", 1)) | {"a": key[0], "b": key[1]}
            self.known.rows[key] = {name: row[name] for name in self.known.order.columns}
            self.known.sequences[key] = (row["s"], row["t"])
            self.writers[1].append("t", [self.known.rows[key]])

    def check(self) -> None:
        table = self.writers[0].table("t")
        expected = Counter(repr(row) for row in self.known.rows.values())
        assert Counter(repr(row) for row in table.read().to_pylist()) == expected
        self.seen[table.snapshot.snapshot_id] = expected

    def check_history(self) -> None:
        """DuckDB sees every snapshot as it was, and the feed leads from the first to the last."""
        lake, names = self.writers[0], list(self.known.order.columns)
        for snapshot, expected in self.seen.items():
            rows = self.oracle.query(f"SELECT {', '.join(names)} FROM t AT (VERSION => {snapshot})")
            assert Counter(repr(dict(zip(names, row, strict=True))) for row in rows) == expected
        first, last = min(self.seen), max(self.seen)
        version = lake.table("t").version
        if first < last:
            changed = feeds.state_of(lake, version, first)
            for change in (
                lake.changes("t", first + 1, last)
                .sort_by([("_commit_version", "ascending"), ("_change_type", "ascending")])
                .to_pylist()
            ):
                key = (change["_rowid"], tuple(canonical(change[name]) for name in names))
                changed[key] += -1 if change["_change_type"] in ("delete", "update_preimage") else 1
            assert +changed == feeds.state_of(lake, version, last)


@pytest.fixture(scope="module")
def duckdb() -> Iterator[Oracle]:
    with Oracle() as oracle:
        yield oracle


def chosen() -> settings:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    if settings.get_current_profile_name() == "fuzz":
        return settings(suppress_health_check=checks, deadline=None)
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    return settings(max_examples=EXAMPLES, suppress_health_check=checks, deadline=None, phases=phases)


def run(make: Callable[[], Catalog], oracle: Oracle, order: Order, steps: list[Any]) -> None:
    catalog = make()
    with ExitStack() as opened:
        writers = [opened.enter_context(Lake.create(catalog.url, catalog.data_path))]
        writers.append(opened.enter_context(Lake.open(catalog.url)))
        writers[0].create_table("t", order.columns)
        oracle.attach(catalog.attach)
        opened.callback(oracle.detach)
        stage = Stage(writers, oracle, Dictionary(order))
        stage.check()
        for step in steps:
            stage.act(step)
            stage.check()
        stage.check_history()
        check_lake(catalog)


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.name)
def test_table_is_what_a_dictionary_is_after_the_same_events(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    duckdb: Oracle,
    kind: str,
    order: Order,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ducklake_core.upsert.search_tasks.LARGE_ROWS", 0)
    server = request.getfixturevalue("postgres_server") if kind == "postgres" else None
    catalogs = sqlite_catalogs(tmp_path) if server is None else postgres_catalogs(tmp_path, server)
    with catalogs as make:

        @chosen()
        @given(steps=STEPS)
        def holds(steps: list[Any]) -> None:
            run(make, duckdb, order, steps)

        holds()
