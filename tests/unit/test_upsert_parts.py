"""The decisions of an upsert, one by one: numbers of keys, the last event of each, what differs, what to read."""

import threading
from collections.abc import Sequence
from datetime import date
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.catalog.inlined_reader import RowPage
from ducklake_core.files.parquet_reader import ROW_IDS
from ducklake_core.model import ColumnId, ColumnStats, DataFile, DataFileId, SchemaId, SnapshotId, TableId, TableVersion
from ducklake_core.spec.types import build_columns
from ducklake_core.upsert.candidates import Candidates
from ducklake_core.upsert.catalog_search import CatalogSearch
from ducklake_core.upsert.decision import decide, duplicates, first_of_each
from ducklake_core.upsert.differences import differ
from ducklake_core.upsert.events import Arrived, Events
from ducklake_core.upsert.key_index import KeyIndex
from ducklake_core.upsert.memory import SearchMemory
from ducklake_core.upsert.rules import UpsertRules
from ducklake_core.upsert.sequence import is_older
from ducklake_core.upsert.threads import beside_each_other

COLUMNS = build_columns({"id": "int64", "part": "varchar", "v": "int64"})
TABLE = TableVersion(
    TableId(1),
    UUID(int=1),
    SchemaId(0),
    "main",
    "t",
    "t/",
    path_is_relative=True,
    directory="/lake/t/",
    columns=COLUMNS,
    next_column_id=4,
)
KEYS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", ""]), st.sampled_from([0, 2**62])), max_size=20)


def columns_of(keys: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
    types = [pa.int64(), pa.string(), pa.int64()]
    return [pa.array([key[i] for key in keys], type_) for i, type_ in enumerate(types)]


@given(own=KEYS, others=KEYS)
def test_rows_get_the_number_of_their_key(own: list[tuple[int, str, int]], others: list[tuple[int, str, int]]) -> None:
    index = KeyIndex(columns_of(own))
    assert index.count == len(set(own))
    numbers = dict(zip(own, index.numbers.tolist(), strict=True))
    assert sorted(set(numbers.values())) == list(range(index.count))
    rows, found = index.find(columns_of(others))
    assert rows.tolist() == [place for place, key in enumerate(others) if key in numbers]
    assert found.tolist() == [numbers[key] for key in others if key in numbers]


def test_a_null_is_no_key() -> None:
    index = KeyIndex([pa.array([1, 2])])
    rows, numbers = index.find([pa.chunked_array([[None, 2], [3]])])
    assert (rows.tolist(), numbers.tolist()) == ([1], [index.numbers[1]])


def events_of(
    rows: list[dict[str, Any]], **arguments: Any
) -> tuple[Events, dict[int, dict[str, Any] | None]]:  # Any: of upsert
    """Return the last events, and what each key gets: None is a delete."""
    events = Arrived.of(pa.Table.from_pylist(rows), TABLE, UpsertRules.of("id", **arguments)).last()
    found = events.rows.to_pylist()
    ids = events.keys.column("id").to_pylist()
    return events, {i: None if row < 0 else found[row] for i, row in zip(ids, events.row_of.tolist(), strict=True)}


def event(id_: int | None, v: int | None, op: str = "u", s: int = 0) -> dict[str, Any]:
    return {"id": id_, "part": "p", "v": v, "op": op, "s": s}


RULES: dict[str, Any] = {"apply_as_deletes": "op = 'd'", "except_columns": ["op", "s"]}


def test_the_last_event_of_each_key_counts() -> None:
    events, last = events_of([event(1, 1), event(2, 2), event(1, 3), event(2, 4, "d")], **RULES)
    assert last == {1: {"id": 1, "part": "p", "v": 3}, 2: None}
    assert events.event_count == 4


def test_the_greatest_sequence_counts_and_of_equals_the_one_that_comes_last() -> None:
    rows = [
        event(1, 1, s=5),
        event(1, 2, s=4),
        event(2, 1, s=1),
        event(2, 2, s=1),
        event(3, 1, "d", 9),
        event(3, 2, s=8),
    ]
    events, last = events_of(rows, sequence_by="s", **RULES)
    assert {i: row and row["v"] for i, row in last.items()} == {1: 1, 2: 2, 3: None}
    assert events.sequence is not None
    assert dict(zip(events.keys["id"].to_pylist(), events.sequence["s"].to_pylist(), strict=True)) == {1: 5, 2: 1, 3: 9}


def test_nulls_that_say_nothing_leave_the_values_before_them_up_to_a_delete() -> None:
    rows = [event(1, 1), event(1, None), event(2, 7), event(2, 0, "d"), event(2, None), event(3, None)]
    events, last = events_of(rows, ignore_null_updates=True, **RULES)
    assert {i: row and row["v"] for i, row in last.items()} == {1: 1, 2: None, 3: None}
    replaced = dict(zip(events.keys["id"].to_pylist(), events.replaces.tolist(), strict=True))
    assert replaced == {1: False, 2: True, 3: False}


def test_events_before_a_truncate_do_not_count() -> None:
    rows = [event(1, 1, s=1), event(2, 2, s=5), event(None, None, "t", 3), event(3, 3, s=2)]
    assert set(events_of(rows, apply_as_truncates="op = 't'", **RULES)[1]) == {3}
    events, last = events_of(rows, apply_as_truncates="op = 't'", sequence_by="s", **RULES)
    assert (set(last), events.has_truncate) == ({2}, True)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from("ud"), st.integers(0, 9)), min_size=1))
def test_the_last_events_are_what_a_dictionary_has_after_all_of_them(drawn: list[tuple[int, int, str, int]]) -> None:
    rows = [event(i, v, op, s) for i, s, op, v in drawn]
    known: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["id"] not in known or row["s"] >= known[row["id"]]["s"]:
            known[row["id"]] = row
    _, last = events_of(rows, sequence_by="s", **RULES)
    assert {i: row and row["v"] for i, row in last.items()} == {
        i: None if row["op"] == "d" else row["v"] for i, row in known.items()
    }


def test_what_is_decided_follows_from_event_row_and_order() -> None:
    cases = [(d, e, late) for d in (False, True) for e in (False, True) for late in (False, True)]
    masks = [np.asarray(mask) for mask in zip(*cases, strict=True)]
    decision = decide(*masks)
    assert [cases[i] for i in np.flatnonzero(decision.is_inserted)] == [(False, False, False)]
    assert [cases[i] for i in np.flatnonzero(decision.is_matched)] == [(False, True, False)]
    assert [cases[i] for i in np.flatnonzero(decision.is_deleted)] == [(True, True, False)]


def test_of_rows_with_one_key_the_lowest_row_id_is_first() -> None:
    numbers, row_ids = np.asarray([0, 1, 0, 1, 2]), np.asarray([5, 3, 4, 9, 1])
    assert duplicates(numbers, 4).tolist() == [True, True, False, False]
    assert first_of_each(numbers, row_ids).tolist() == [False, True, True, False, True]


@pytest.mark.parametrize(
    ("type_", "old", "new", "expected"),
    [
        (
            pa.float64(),
            [1.0, float("nan"), None, 0.0],
            [1.0, float("nan"), float("nan"), -0.0],
            [False, False, True, True],
        ),
        (pa.string(), ["a", None, None, "b"], ["a", None, "", "c"], [False, False, True, True]),
        (pa.list_(pa.float64()), [[1.0], [], None], [[float("nan")], None, None], [True, True, False]),
        (pa.uuid(), [bytes(16), None], [bytes(16), bytes(16)], [False, True]),
        (pa.bool_(), [True, False], [True, True], [False, True]),
        (pa.date32(), [date(2020, 1, 1)], [date(2020, 1, 2)], [True]),
    ],
)
def test_rows_differ_by_value_where_null_and_nan_are_themselves(
    type_: pa.DataType, old: list[Any], new: list[Any], expected: list[bool]
) -> None:
    tables = [pa.table({"x": pa.array(values, type_)}) for values in (old, new)]
    assert differ(*tables).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 2), st.text("ab", max_size=1), st.integers(0, 2), st.text("ab", max_size=1))))
def test_sequences_compare_as_tuples(drawn: list[tuple[int, str, int, str]]) -> None:
    types = [pa.int64(), pa.string(), pa.int64(), pa.string()]
    arrays = [pa.array([row[i] for row in drawn], type_) for i, type_ in enumerate(types)]
    events, stored = (pa.table(some, names=["s", "t"]) for some in (arrays[:2], arrays[2:]))
    assert is_older(events, stored).tolist() == [row[:2] < row[2:] for row in drawn]


def test_what_is_stored_as_null_is_newer_than_nothing() -> None:
    assert is_older(pa.table({"s": [1]}), pa.table({"s": pa.array([None], pa.int64())})).tolist() == [False]


@pytest.mark.parametrize(
    ("low", "high", "expected"), [("0", "9", False), ("10", "15", True), ("16", "19", False), (None, None, True)]
)
def test_files_are_left_out_that_no_key_can_be_in(low: str | None, high: str | None, *, expected: bool) -> None:
    candidates = Candidates(TABLE, COLUMNS[:1], KeyIndex([pa.array([10, 15, 20])]))
    file = DataFile(DataFileId(1), "/lake/t/f", SnapshotId(1), 10, 100, 0)
    stats = ColumnStats(ColumnId(1), value_count=10, null_count=0, min_value=low, max_value=high)
    assert candidates.may_hold(file, {ColumnId(1): stats}) is expected


def test_what_is_known_of_files_ends_with_the_numbers_of_keys() -> None:
    memory, index = SearchMemory(), KeyIndex([pa.array([1, 2, 3])])
    memory.of(COLUMNS, index)["file"] = None

    assert memory.of(COLUMNS, KeyIndex([pa.array([1, 2, 3])])) == {"file": None}
    assert memory.of(COLUMNS, KeyIndex([pa.array([2, 3])])) == {}
    memory.of(COLUMNS, index)["file"] = None
    assert memory.of(COLUMNS, KeyIndex([pa.array([1, 3, 2])])) == {}
    memory.of(COLUMNS, index)["file"] = None
    assert memory.of(COLUMNS[:1], index) == {}


def test_rows_of_one_id_on_two_pages_are_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"k": ["a", "b", "c", "d", "e", "f", "g"], ROW_IDS: [0, 1, 2, 2, 2, 2, 7]})

    def read_page(_session: object, _inlined: object, _request: object, page: RowPage) -> pa.Table:
        return rows.filter(pc.field(ROW_IDS) >= page.first).slice(0, page.limit)

    monkeypatch.setattr("ducklake_core.upsert.catalog_search._PAGE_ROWS", 3)
    monkeypatch.setattr("ducklake_core.upsert.catalog_search.read_inlined", read_page)
    request: Any = SimpleNamespace(schema=rows.schema)  # Any: all that is asked of it
    index, nothing = KeyIndex([rows.column("k")]), cast("Any", None)
    search = CatalogSearch(request, (), index, lambda page: index.find([page.column("k")]))

    assert search._paged(nothing, nothing).rows.column("k").to_pylist() == list("abcdefg")


def test_nothing_goes_on_once_work_beside_each_other_has_failed() -> None:
    begun, ended = threading.Event(), list[int]()

    def act(item: int) -> int:
        if item == 0:
            begun.wait()
            raise KeyError(item)
        begun.set()
        ended.append(sum(range(2_000_000)))
        return item

    with pytest.raises(KeyError):
        beside_each_other(act, [0, 1])

    assert len(ended) == 1
    assert beside_each_other(lambda item: beside_each_other(abs, [item, -item]), [1, 2]) == [[1, 1], [2, 2]]
