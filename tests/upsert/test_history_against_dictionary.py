"""Random events in any order and any batches, beside maintenance and a second writer: the versions of a dictionary.

The dictionary has the last event of each key and sequence, and makes the versions of all of them at once: it knows
nothing of batches, hidden changes, files or catalogs. DuckDB reads the same at every snapshot.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fuzz.places import postgres_catalogs, sqlite_catalogs
from tests.upsert.test_against_dictionary import chosen

Row: TypeAlias = dict[str, Any]  # Any: values of any type

TABLE = {"a": "int32", "b": "varchar", "x": "float64", "l": "int32[]", "__START_AT": "int64", "__END_AT": "int64"}
RULES: dict[str, Any] = {
    "keys": ["a", "b"],
    "sequence_by": "s",
    "apply_as_deletes": "op = 'd'",
    "except_columns": ["op", "s"],
    "stored_as_scd_type": 2,
}
TRACKED = {"all columns": ["x", "l"], "one of them": ["x"]}
TYPES = {"a": pa.int32(), "x": pa.float64(), "l": pa.list_(pa.int32()), "s": pa.int64()}
EVENTS = st.tuples(
    st.integers(0, 7), st.integers(0, 9), st.sampled_from("uuud"), st.sampled_from([None, 1.5, -0.0]), st.integers(0, 2)
)
BATCHES = st.one_of(st.lists(EVENTS, min_size=1, max_size=4), st.lists(EVENTS, min_size=20, max_size=40))
CARE = st.sampled_from(["flush", "merge", "rewrite", "duckdb flush", "duckdb rewrite", "again"])
STEPS = st.lists(st.one_of(st.tuples(st.integers(0, 2), BATCHES), CARE), min_size=4, max_size=10)


@dataclass(slots=True)
class Dictionary:
    """All events that count, and the versions that follow from them."""

    tracked: list[str]
    events: dict[tuple[int, str], dict[int, Row]] = field(default_factory=dict)

    def apply(self, events: list[Row]) -> None:
        for event in events:
            self.events.setdefault((event["a"], event["b"]), {})[event["s"]] = event

    def rows(self) -> Counter[str]:
        return Counter(repr(row) for events in self.events.values() for row in self._versions(events))

    def _versions(self, events: dict[int, Row]) -> Iterator[Row]:
        current: Row | None = None
        for s in sorted(events):
            event = events[s]
            row = {name: event[name] for name in ("a", "b", "x", "l")}
            if current is not None and event["op"] == "u" and self._looks_as(current, event):
                current |= row
                continue
            if current is not None:
                yield current | {"__END_AT": s}
            current = row | {"__START_AT": s, "__END_AT": None} if event["op"] == "u" else None
        if current is not None:
            yield current

    def _looks_as(self, one: Row, other: Row) -> bool:
        return all(repr(one[name]) == repr(other[name]) for name in self.tracked)


def event_of(drawn: tuple[int, int, str, float | None, int]) -> Row:
    number, s, op, x, value = drawn
    return {"a": number // 2, "b": "pq"[number % 2], "x": x, "l": (None, [], [1, None])[value], "s": s, "op": op}


def typed(events: list[Row]) -> pa.Table:
    return pa.table({name: pa.array([e[name] for e in events], TYPES.get(name, pa.string())) for name in events[0]})


@dataclass(slots=True)
class Stage:
    """One lake, two writers of ours, DuckDB, and the dictionary."""

    writers: list[Lake]
    oracle: Oracle
    known: Dictionary
    last: list[Row] = field(default_factory=list)
    seen: dict[int, Counter[str]] = field(default_factory=dict)

    def act(self, step: str | tuple[int, list[Any]]) -> None:
        lake, rules = self.writers[0], {**RULES, "track_history_columns": self.known.tracked}
        match step:
            case (2, list(drawn)):
                self._in_one_transaction([event_of(one) for one in drawn], rules)
            case (int(writer), list(drawn)):
                self.last = [event_of(one) for one in drawn]
                self.known.apply(self.last)
                self.writers[writer].upsert("t", typed(self.last), **rules)
            case "again" if self.last:
                kept = list({(e["a"], e["b"], e["s"]): e for e in self.last}.values())
                assert lake.upsert("t", typed(kept), **rules).snapshot is None
            case "flush":
                lake.flush_inlined()
            case "merge":
                lake.merge_adjacent_files("t")
            case "rewrite":
                lake.rewrite_data_files("t", delete_threshold=0.0)
            case "duckdb flush":
                self.oracle.execute("CALL ducklake_flush_inlined_data('lake')")
            case "duckdb rewrite":
                self.oracle.execute("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.0)")

    def _in_one_transaction(self, events: list[Row], rules: dict[str, Any]) -> None:
        """What a transaction has added itself changes where it waits."""
        half = (len(events) + 1) // 2
        with self.writers[1].transaction() as tx:
            for part in (events[:half], events[half:]):
                if part:
                    self.known.apply(part)
                    tx.upsert("t", typed(part), **rules)
        self.last = []

    def check(self) -> None:
        table = self.writers[0].table("t")
        assert Counter(repr(row) for row in table.read().to_pylist()) == self.known.rows()
        self.seen[table.snapshot.snapshot_id] = self.known.rows()

    def check_duckdb(self) -> None:
        names = list(TABLE)
        for snapshot, expected in self.seen.items():
            rows = self.oracle.query(f"SELECT {', '.join(names)} FROM t AT (VERSION => {snapshot})")
            assert Counter(repr(dict(zip(names, row, strict=True))) for row in rows) == expected


@pytest.fixture(scope="module")
def duckdb() -> Iterator[Oracle]:
    with Oracle() as oracle:
        yield oracle


def run(make: Callable[[], Catalog], oracle: Oracle, tracked: list[str], steps: list[Any]) -> None:
    catalog = make()
    with ExitStack() as opened:
        writers = [opened.enter_context(Lake.create(catalog.url, catalog.data_path))]
        writers.append(opened.enter_context(Lake.open(catalog.url)))
        writers[0].create_table("t", TABLE)
        oracle.attach(catalog.attach)
        opened.callback(oracle.detach)
        stage = Stage(writers, oracle, Dictionary(tracked))
        stage.check()
        for step in steps:
            stage.act(step)
            stage.check()
        stage.check_duckdb()
        check_lake(catalog)


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("tracked", TRACKED.values(), ids=TRACKED)
def test_versions_are_those_of_a_dictionary_after_the_same_events(
    request: pytest.FixtureRequest, tmp_path: Path, duckdb: Oracle, kind: str, tracked: list[str]
) -> None:
    server = request.getfixturevalue("postgres_server") if kind == "postgres" else None
    catalogs = sqlite_catalogs(tmp_path) if server is None else postgres_catalogs(tmp_path, server)
    with catalogs as make:

        @chosen()
        @given(steps=STEPS)
        def holds(steps: list[Any]) -> None:
            run(make, duckdb, tracked, steps)

        holds()
