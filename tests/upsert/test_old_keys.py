"""Events that say which key a row had before: no row of the old key stays, in whichever order keys are passed on."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput, SchemaMismatch, UntoldValue
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle

KEY = pa.struct([("B", pa.string()), ("a", pa.int32())])
TYPES = {"a": pa.int32(), "b": pa.string(), "v": pa.string(), "old": KEY, "op": pa.string(), "s": pa.int64()}
RULES: dict[str, Any] = {  # Any: each argument is of its own type
    "keys": ["a", "b"],
    "old_keys": "OLD",
    "apply_as_deletes": "op = 'd'",
    "except_columns": ["op", "s"],
}


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"a": "int64", "b": "varchar", "v": "varchar"})
        lake.append("t", {"a": [1, 2, 3], "b": ["x"] * 3, "v": ["one", "two", "three"]})
        yield lake


def event(a: int, v: str | None, old: int | None = None, *, op: str = "u", s: int = 1, b: str = "x") -> dict[str, Any]:
    return {"a": a, "b": b, "v": v, "old": None if old is None else {"B": "x", "a": old}, "op": op, "s": s}


def events(*rows: dict[str, Any]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], type_) for name, type_ in TYPES.items()})


def read(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted((row["a"], row["b"], row["v"]) for row in lake.table("t").read().to_pylist())


def test_keys_are_passed_on_within_a_batch(catalog: Catalog, oracle: Oracle, lake: Lake) -> None:
    passed_on = [event(4, "three", 3), event(3, "two", 2), event(2, "one", 1), event(1, "new")]
    report = lake.upsert("t", events(*passed_on, event(1, "newer", 1), event(4, "three", 9)), **RULES)

    assert read(lake) == [(1, "x", "newer"), (2, "x", "one"), (3, "x", "two"), (4, "x", "three")]
    assert (report.events, report.inserted, report.updated, report.deleted) == (10, 1, 3, 0)
    oracle.attach(catalog.attach)
    assert sorted(oracle.query("SELECT a, b, v FROM t")) == read(lake)


def test_one_column_of_the_key_changes(lake: Lake) -> None:
    lake.upsert("t", events(event(1, "one", 1, b="y")), **RULES)

    assert read(lake) == [(1, "y", "one"), (2, "x", "two"), (3, "x", "three")]


def test_old_key_is_deleted_at_the_sequence_of_the_event(lake: Lake) -> None:
    rules = {**RULES, "sequence_by": "s"}
    lake.upsert("t", events(event(2, "newer", s=9), event(5, "one", 1, s=5)), **rules)

    late = lake.upsert("t", events(event(1, "late", s=4), event(6, "moved late", 2, s=8)), **rules)

    assert late.late == 2
    assert read(lake) == [(2, "x", "newer"), (3, "x", "three"), (5, "x", "one"), (6, "x", "moved late")]


def test_truncate_and_versions_go_with_it(lake: Lake) -> None:
    table = events(event(7, "gone", 1), event(0, None, op="t"), event(8, "kept", 7))
    lake.upsert("t", table, apply_as_truncates="op = 't'", **RULES)
    assert read(lake) == [(8, "x", "kept")]

    lake.create_table("h", {"a": "int64", "b": "varchar", "v": "varchar", "__START_AT": "int64", "__END_AT": "int64"})
    history = {**RULES, "sequence_by": "s", "stored_as_scd_type": 2}
    lake.upsert("h", events(event(1, "v", s=1), event(2, "v", 1, s=5)), **history)
    found = lake.table("h").read().sort_by("a").to_pylist()
    assert [(r["a"], r["__START_AT"], r["__END_AT"]) for r in found] == [(1, 1, 5), (2, 5, None)]


def test_event_that_leaves_a_value_out_is_told_by_its_own_place(lake: Lake) -> None:
    kept = pa.array([None, None, ["v"]], pa.list_(pa.string()))
    table = events(event(4, "one", 1), event(5, "two", 2), event(6, None, 3)).append_column("kept", kept)

    with pytest.raises(UntoldValue) as caught:
        lake.upsert("t", table, kept_columns="kept", **RULES)

    assert caught.value.rows == [2]


@pytest.mark.parametrize("column", ["nothing", "v", "op"])
def test_what_is_no_struct_of_the_keys_is_refused(lake: Lake, column: str) -> None:
    with pytest.raises(SchemaMismatch, match=f"old_keys is '{column}', but the events have no such column of structs"):
        lake.upsert("t", events(event(1, "x")), **{**RULES, "old_keys": column})


def test_null_in_an_old_key_is_refused(lake: Lake) -> None:
    table = events({**event(1, "x"), "old": {"B": None, "a": 1}})

    with pytest.raises(InvalidInput, match="a null in the key column 'b'"):
        lake.upsert("t", table, **RULES)
