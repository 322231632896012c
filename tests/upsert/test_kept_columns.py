"""Values that an event does not tell: the row keeps what it has, row by row and column by column."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import SchemaMismatch, UntoldValue
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle

MANY = 40  # above the limit of 10 inlined rows
SCHEMA = pa.schema(
    [
        *(("id", pa.int64()), ("text", pa.string()), ("data", pa.binary()), ("list", pa.list_(pa.int64()))),
        *(("kept", pa.list_(pa.string())), ("op", pa.string()), ("lsn", pa.int64())),
    ]
)
RULES: dict[str, Any] = {  # Any: each argument is of its own type
    "keys": "id",
    "kept_columns": "kept",
    "apply_as_deletes": "op = 'd'",
    "except_columns": ["op", "lsn"],
}


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64", "text": "varchar", "data": "blob", "list": "int64[]"})
        lake.set_not_null("t", "text")
        lake.append("t", {"id": range(MANY), "text": ["a"] * MANY, "data": [b"a"] * MANY, "list": [[1, None]] * MANY})
        lake.append("t", {"id": [100, 101], "text": ["b", "b"], "data": [None, b"b"], "list": [None, []]})  # inlined
        yield lake


def event(id_: int, text: str | None, kept: list[str] | None = None, lsn: int = 1, op: str = "u") -> dict[str, Any]:
    """Return a change; those of `kept` have a value that must not be looked at."""
    return {"id": id_, "text": text, "data": b"?", "list": [0], "kept": kept, "op": op, "lsn": lsn}


def events(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


def read(lake: Lake, *ids: int) -> list[tuple[Any, ...]]:
    found = lake.table("t").read(filter=f"id IN ({', '.join(map(str, ids))})").to_pylist()
    return [tuple(row.values()) for row in sorted(found, key=lambda row: ids.index(row["id"]))]


def test_row_keeps_what_its_event_does_not_tell(catalog: Catalog, oracle: Oracle, lake: Lake) -> None:
    report = lake.upsert(
        "t",
        events(
            event(3, "x", ["DATA", "list"]),
            event(4, None, ["text"]),
            event(5, "x"),
            event(6, "a", ["data", "list"]),  # as it is
            event(100, "x", ["data"]),
            event(101, "x", ["data", "list"]),
            event(7, "?", op="d"),
            event(8, "x"),
            event(8, None, ["text", "data"]),  # the event before has told them
            event(200, "x"),
            event(200, "y", ["data", "list"]),
        ),
        **RULES,
    )

    assert (report.inserted, report.updated, report.deleted, report.unchanged) == (1, 6, 1, 1)
    assert read(lake, 3, 4, 5, 6, 7, 8) == [
        *((3, "x", b"a", [1, None]), (4, "a", b"?", [0]), (5, "x", b"?", [0])),
        *((6, "a", b"a", [1, None]), (8, "x", b"?", [0])),
    ]
    assert read(lake, 100, 101, 200) == [(100, "x", None, [0]), (101, "x", b"b", []), (200, "y", b"?", [0])]
    oracle.attach(catalog.attach)
    assert oracle.query("SELECT text, data, list FROM t WHERE id = 3") == [("x", b"a", [1, None])]
    check_lake(catalog)


def test_event_without_a_row_to_keep_values_of_is_named(lake: Lake) -> None:
    deleted = event(3, "?", op="d"), event(3, "x"), event(3, "?", op="d"), event(3, "y", ["data"])
    batch = events(event(1, "x"), event(300, "x", ["list"]), *deleted, event(300, "z", ["list", "data"]))

    with pytest.raises(UntoldValue, match=r"'main\.t' has no row with the key \{'id': 300\}.*column 'list'") as caught:
        lake.upsert("t", batch, **RULES)

    assert caught.value.rows == [1, 6, 5]
    assert (caught.value.columns, caught.value.keys) == (["data", "list"], [{"id": 300}, {"id": 3}])
    with lake.transaction() as tx:
        with pytest.raises(UntoldValue):
            tx.upsert("t", batch, **RULES)
        truncate = events(event(1, "?", op="t"), event(1, "x", ["data"]))
        with pytest.raises(UntoldValue):
            tx.upsert("t", truncate, **RULES, apply_as_truncates="op = 't'")
        tx.upsert("t", events(event(2, "x")), **RULES)  # nothing was done by halves
    assert read(lake, 1, 2) == [(1, "a", b"a", [1, None]), (2, "x", b"?", [0])]


def test_late_event_tells_nothing_of_a_row_that_keeps_its_values(lake: Lake) -> None:
    in_order = {**RULES, "sequence_by": "lsn"}
    lake.upsert("t", events(event(1, "first", lsn=10)), **in_order)

    late, newer = event(1, "late", lsn=5), event(1, None, ["text"], lsn=11)
    lake.upsert("t", events(late, newer, event(300, "x", ["data"], lsn=1), event(300, "?", op="d", lsn=2)), **in_order)
    report = lake.upsert("t", events(event(300, "x", ["data"], lsn=1)), **in_order)

    assert read(lake, 1, 300) == [(1, "first", b"?", [0])]
    assert report.late == 1  # nothing is asked of an event that changes nothing


def test_what_is_no_list_of_columns_is_refused(lake: Lake) -> None:
    with pytest.raises(SchemaMismatch, match="no such column of lists of names"):
        lake.upsert("t", events(event(1, "x")), **{**RULES, "kept_columns": "op", "except_columns": ["kept", "lsn"]})
    with pytest.raises(SchemaMismatch, match="lists 'unknown', which is no column of it"):
        lake.upsert("t", events(event(1, "x", ["unknown"])), **RULES)


def test_event_without_a_row_after_a_truncate_leaves_the_transaction_as_it_was(lake: Lake) -> None:
    """The event that tells the value is older than the delete of its key, and is passed over."""
    in_order = {**RULES, "sequence_by": "lsn"}
    lake.upsert("t", events(event(300, "x", lsn=4), event(301, "x", lsn=9)), **in_order)
    lake.upsert("t", events(event(300, "?", op="d", lsn=5)), **in_order)
    batch = events(event(0, "?", op="t", lsn=2), event(300, "x", lsn=3), event(300, "y", ["data"], lsn=6))

    with lake.transaction() as tx:
        with pytest.raises(UntoldValue):
            tx.upsert("t", batch, **in_order, apply_as_truncates="op = 't'")
        tx.upsert("t", events(event(2, "x", lsn=2)), **in_order)
    assert read(lake, 1, 2, 301) == [(1, "a", b"a", [1, None]), (2, "x", b"?", [0]), (301, "x", b"?", [0])]

    whole = event(301, "x", lsn=3), event(301, "y", ["data"], lsn=10)  # no event is late of a row that is gone
    lake.upsert("t", pa.concat_tables([batch.slice(0, 2), events(*whole)]), **in_order, apply_as_truncates="op = 't'")
    assert [tuple(row.values()) for row in lake.table("t").read().to_pylist()] == [(301, "y", b"?", [0])]
