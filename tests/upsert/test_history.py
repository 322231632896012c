"""Tables that keep all versions of their rows: what is shown, what is remembered, and what is refused."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from ducklake_core import CommitResult, Lake, Transaction
from ducklake_core.clock import Clock
from ducklake_core.errors import InvalidInput, SchemaMismatch
from ducklake_core.upsert.history import hidden_name
from ducklake_core.upsert.key_history import Change
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.values import SAMPLES, raw_array
from tests.upsert.test_sequence import Hands

RULES: dict[str, Any] = {
    "keys": "id",
    "sequence_by": "lsn",
    "apply_as_deletes": "op = 'd'",
    "except_columns": ["op", "lsn"],
    "stored_as_scd_type": 2,
}
INTERVAL = {"__START_AT": "int64", "__END_AT": "int64"}
TABLE = {"id": "int64", "v": "varchar", "note": "varchar", **INTERVAL}
TRACKS_V = {**RULES, "track_history_columns": "v"}


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def lake(catalog: Catalog, clock: Hands) -> Iterator[Lake]:
    with Lake.create(catalog.url, catalog.data_path, clock=Clock(now=clock.now)) as lake:
        lake.create_table("t", TABLE)
        yield lake


def event(id_: int, v: str | None, lsn: Any, op: str = "u", note: str | None = None) -> dict[str, Any]:
    return {"id": id_, "v": v, "note": note, "lsn": lsn, "op": op}


def versions(lake: Lake, id_: int = 1) -> list[tuple[Any, ...]]:
    rows = lake.table("t").read(filter=f"id = {id_}").sort_by("__START_AT").to_pylist()
    return [(row["v"], row["__START_AT"], row["__END_AT"]) for row in rows]


def hidden(lake: Lake) -> list[int]:
    """Return the sequences of changes that no version shows."""
    return sorted(row["column_4"] for row in lake.table(hidden_name(lake.table("t").version)).read().to_pylist())


def test_versions_follow_the_sequence_and_not_the_order_of_arrival(
    lake: Lake, catalog: Catalog, oracle: Oracle
) -> None:
    def apply(*events: dict[str, Any]) -> list[tuple[Any, ...]]:
        lake.upsert("t", list(events), **RULES)
        return versions(lake)

    assert apply(event(1, "Oslo", 10), event(1, "Rome", 30)) == [("Oslo", 10, 30), ("Rome", 30, None)]
    assert apply(event(1, "Kiel", 20)) == [("Oslo", 10, 20), ("Kiel", 20, 30), ("Rome", 30, None)]
    assert apply(event(1, None, 25, "d")) == [("Oslo", 10, 20), ("Kiel", 20, 25), ("Rome", 30, None)]
    assert apply(event(1, None, 40, "d"), event(1, "Bonn", 50))[2:] == [("Rome", 30, 40), ("Bonn", 50, None)]
    assert apply(event(1, "Oslo", 20))[:2] == [("Oslo", 10, 25), ("Rome", 30, 40)], "equal neighbours are one"
    assert lake.upsert("t", [event(1, "Bonn", 50), event(1, None, 40, "d")], **RULES).snapshot is None
    assert lake.upsert("t", pa.Table.from_pylist([event(1, "a", 1)]).slice(1), **RULES).snapshot is None

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT v, __START_AT, __END_AT FROM t ORDER BY __START_AT") == versions(lake)
    changes = lake.changes("t", 0, lake.snapshots()[-1].snapshot_id).to_pylist()
    begun = {change["_rowid"] for change in changes if change["_change_type"] == "insert"}
    assert len(begun) == 4, "a version that changes keeps its row id"
    check_lake(catalog)


def test_what_no_version_shows_is_remembered_for_late_changes_and_forgotten_after_its_time(
    lake: Lake, clock: Hands
) -> None:
    lake.upsert("t", [event(1, "a", 10), event(2, None, 20, "d")], **RULES)
    lake.upsert("t", [event(1, "a", 30, note=None)], **RULES)
    assert hidden(lake) == [20, 30]

    lake.upsert("t", [event(1, "b", 20), event(2, "c", 15)], **RULES)
    assert versions(lake) == [("a", 10, 20), ("b", 20, 30), ("a", 30, None)]
    assert versions(lake, 2) == [("c", 15, 20)]
    assert hidden(lake) == []

    lake.upsert("t", [event(3, None, 20, "d"), event(1, "a", 40)], **RULES)
    clock.sleep(8 * 86400)
    lake.upsert("t", [event(4, None, 50, "d")], **RULES)
    assert hidden(lake) == [50]
    lake.upsert("t", [event(3, "late", 10)], **RULES)
    assert versions(lake, 3) == [("late", 10, None)]


def test_columns_that_are_not_tracked_change_in_place(lake: Lake) -> None:
    lake.upsert("t", [event(1, "a", 10, note="x"), event(1, "a", 30, note="z")], **TRACKS_V)
    assert [(row["note"], row["__START_AT"]) for row in lake.table("t").read().to_pylist()] == [("z", 10)]

    lake.upsert("t", [event(1, "b", 20, note="y")], **TRACKS_V)

    rows = lake.table("t").read().sort_by("__START_AT").to_pylist()
    assert [(r["v"], r["note"], r["__START_AT"]) for r in rows] == [("a", "x", 10), ("b", "y", 20), ("a", "z", 30)]


def test_many_versions_go_to_files_and_renamed_columns_are_found_again(lake: Lake, catalog: Catalog) -> None:
    lake.set_option("data_inlining_row_limit", "10")
    lake.upsert("t", [event(i, f"v{n}", n) for i in range(200) for n in (10, 20)], **RULES)
    lake.upsert("t", [event(i, None, 40, "d") for i in range(200, 230)], **RULES)
    lake.rename_column("t", "v", "w")
    lake.rename_table("t", "u")
    lake.rename_table("u", "t")
    lake.add_column("t", "more", "int64")
    late = [{**event(i, None, 15), "w": "v15", "more": 1} for i in range(100, 230)]
    for one in late:
        del one["v"]

    report = lake.upsert("t", late, **RULES)

    assert (report.inserted, report.updated, report.unchanged) == (130, 100, 0)
    rows = (
        lake.table("t").read(filter="id IN (7, 150, 210)").sort_by([("id", "ascending"), ("__START_AT", "ascending")])
    )
    assert [(r["id"], r["w"], r["__START_AT"], r["__END_AT"]) for r in rows.to_pylist()] == [
        *((7, "v10", 10, 20), (7, "v20", 20, None)),
        *((150, "v10", 10, 15), (150, "v15", 15, 20), (150, "v20", 20, None), (210, "v15", 15, 40)),
    ]
    check_lake(catalog)


@pytest.mark.parametrize("row_limit", ["0", "10"])
def test_hidden_changes_have_the_default_of_a_column_that_is_added(
    lake: Lake, catalog: Catalog, row_limit: str
) -> None:
    lake.set_option("data_inlining_row_limit", row_limit)
    lake.upsert("t", [event(1, "a", 10), event(1, "a", 30), event(2, "a", 10), event(2, "a", 30)], **RULES)
    lake.add_column("t", "n", "int32", default=7, nulls_allowed=False)

    lake.upsert("t", [{**event(1, "b", 20), "n": 1}, {**event(2, "b", 40), "n": 1}], **RULES)

    rows = lake.table("t").read().to_pylist()
    assert sorted((r["id"], r["__START_AT"], r["v"], r["n"]) for r in rows) == [
        *((1, 10, "a", 7), (1, 20, "b", 1), (1, 30, "a", 7)),
        *((2, 10, "a", 7), (2, 40, "b", 1)),
    ]
    assert lake.upsert("t", [{**event(2, "a", 30), "n": 7}], **RULES).snapshot is None, "it is hidden as it was"
    check_lake(catalog)


def test_hidden_changes_follow_columns_and_fields_that_are_dropped_renamed_and_added(
    lake: Lake, catalog: Catalog, oracle: Oracle
) -> None:
    nested = {"s": "struct(a int32, b uuid[])", "l": "struct(x int32, y date)[]"}
    lake.create_table("n", {"id": "int64", "v": "varchar", "gone": "int32", **nested, **INTERVAL})

    def apply(v: str, lsn: int, **values: Any) -> None:
        lake.upsert("n", [{"id": 1, "v": v, "lsn": lsn, "op": "u", **values}], **TRACKS_V)

    for lsn in (10, 30):
        apply("a", lsn, gone=lsn, s={"a": lsn, "b": [f"{lsn:032}"]}, l=[{"x": lsn, "y": date(2030, 1, 1)}, None])
    lake.add_column("n", "s.c", "int32", default=5)
    for path in ("gone", "s.a", "l.element.y"):
        lake.drop_column("n", path)
    lake.rename_column("n", "s.b", "a")
    lake.promote_column("n", "l.element.x", "int64")
    apply("b", 20, s={"a": [], "c": 1}, l=[])
    apply("b", 25, s={"a": [], "c": 2}, l=[])

    rows = lake.table("n").read().sort_by("__START_AT").to_pylist()
    assert [(r["v"], r["__START_AT"], r["s"]["c"], r["l"]) for r in rows] == [
        *(("a", 10, 5, [{"x": 10}, None]), ("b", 20, 2, []), ("a", 30, 5, [{"x": 30}, None]))
    ]
    assert [[one.int for one in r["s"]["a"]] for r in rows] == [[0x10], [], [0x30]]
    oracle.attach(catalog.attach)
    hidden_table = hidden_name(lake.table("n").version)
    assert oracle.query(f"SELECT column_12, column_4.column_14 FROM {hidden_table} ORDER BY ALL") == [(20, 1), (25, 2)]
    check_lake(catalog)


FAR_TIMES = {
    "timestamp[]": [[None, 2**63 - 1], [None, 2**59]],  # infinity, and the year 20237
    "date[]": pa.array([[2**31 - 1], [2**23]], pa.list_(pa.int32())),
    "struct(a timestamptz)": [{"a": 2**63 - 1}, {"a": 2**59}],
    "map(int64, timestamp)": pa.array([[(1, 2**63 - 1)], [(1, 2**59)]], pa.map_(pa.int64(), pa.int64())),
}


@pytest.mark.parametrize("type_", FAR_TIMES)
def test_nested_times_that_python_has_not_are_compared(lake: Lake, type_: str) -> None:
    lake.create_table("far", {"id": "int64", "c": type_, **INTERVAL})
    lake.create_table("one", {"id": "int64", "c": type_})
    values = pa.array(FAR_TIMES[type_]).view(lake.table("one").read().schema.field("c").type)

    def told(place: int, lsn: int) -> pa.Table:
        return pa.table({"id": [1], "c": values.take([place]), "lsn": [lsn], "op": ["u"]})

    for place, lsn in ((0, 10), (0, 20), (1, 30)):
        lake.upsert("far", told(place, lsn), **RULES)
    assert lake.table("far").read(["__START_AT"]).column(0).to_pylist() == [10, 30]
    for place, changed in ((0, 1), (0, 0), (1, 1)):
        report = lake.upsert("one", told(place, 1).drop_columns(["lsn", "op"]), keys="id")
        assert report.inserted + report.updated == changed


def test_many_hidden_changes_of_one_key_are_each_looked_at_a_few_times(lake: Lake) -> None:
    lake.upsert("t", [event(1, "a", lsn) for lsn in range(300)], **RULES)
    hashed, own_hash = [0], Change.__hash__

    def count(self: Change) -> int:
        hashed[0] += 1
        return own_hash(self)

    with patch.object(Change, "__hash__", count):
        lake.upsert("t", [event(1, "a", 300)], **RULES)

    assert 300 <= hashed[0] < 20 * 300


def test_row_without_a_start_holds_since_ever(lake: Lake) -> None:
    lake.append("t", {"id": [1], "v": ["old"], "note": [None], "__START_AT": [None], "__END_AT": [None]})

    lake.upsert("t", [event(1, "new", 5)], **RULES)

    assert sorted(versions(lake), key=str) == [("new", 5, None), ("old", None, 5)]


def test_change_of_another_meanwhile_is_placed_with_ours(lake: Lake, catalog: Catalog) -> None:
    """It comes between what the upsert has read and its commit: all is planned anew."""
    lake.upsert("t", [event(1, "a", 10)], **RULES)
    rivals, commit = iter([20]), Transaction.commit

    def rival_and_commit(self: Transaction) -> CommitResult:
        for lsn in rivals:
            with Lake.open(catalog.url) as other:
                other.upsert("t", [event(1, "rival", lsn), event(2, "rival", lsn)], **RULES)
        return commit(self)

    with patch.object(Transaction, "commit", rival_and_commit):
        lake.upsert("t", [event(2, "ours", 15)], **RULES)  # which neither of them ends a row for

    assert versions(lake, 2) == [("ours", 15, 20), ("rival", 20, None)]
    assert versions(lake) == [("a", 10, 20), ("rival", 20, None)]


@pytest.mark.parametrize("row_limit", ["0", "10"])
def test_versions_that_a_transaction_has_added_change_where_they_wait(lake: Lake, row_limit: str) -> None:
    lake.set_option("data_inlining_row_limit", row_limit)
    lake.upsert("t", [event(1, "a", 10)], **RULES)

    with lake.transaction() as tx:
        for v, lsn in (("d", 40), ("b", 20), ("c", 30), ("c", 35)):
            tx.upsert("t", [event(1, v, lsn), event(2, v, lsn)], **RULES)

    assert versions(lake) == [("a", 10, 20), ("b", 20, 30), ("c", 30, 40), ("d", 40, None)]
    assert versions(lake, 2) == versions(lake)[1:]
    assert hidden(lake) == [35, 35]


def test_sequence_may_be_a_time(lake: Lake) -> None:
    lake.create_table("timed", {"id": "int64", "v": "varchar", "__START_AT": "timestamptz", "__END_AT": "timestamptz"})
    times = [datetime(2030, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    rules = {**RULES, "except_columns": ["op", "lsn", "note"]}

    for place in (2, 0, 1):
        lake.upsert("timed", [event(1, f"v{place}", times[place])], **rules)

    rows = lake.table("timed").read().sort_by("__START_AT").to_pylist()
    assert [(r["v"], r["__START_AT"], r["__END_AT"]) for r in rows] == [
        *(("v0", times[0], times[1]), ("v1", times[1], times[2]), ("v2", times[2], None))
    ]


def test_values_of_every_type_are_compared_and_kept(lake: Lake) -> None:
    nested = {
        "uuid[]": pa.array([[b"x" * 16, None], []], pa.list_(pa.binary(16))),
        "struct(a json, b int8)": pa.array([{"a": "1", "b": 1}, None], pa.struct({"a": pa.string(), "b": pa.int8()})),
    }
    samples = {**{type_: raw_array([*some, None][:2], type_) for type_, some in SAMPLES.items()}, **nested}
    names = {type_: f"c{place}" for place, type_ in enumerate(samples)}
    lake.create_table("all", {"id": "int64", **{names[type_]: type_ for type_ in samples}, **INTERVAL})

    def apply(*events: tuple[int, int, int, str]) -> list[tuple[int | None, ...]] | None:
        columns = {names[type_]: some.take([e[1] for e in events]) for type_, some in samples.items()}
        ids, _, lsn, op = zip(*events, strict=True)
        report = lake.upsert("all", pa.table({"id": ids, **columns, "lsn": lsn, "op": op}), **RULES)
        rows = lake.table("all").read(["id", *INTERVAL]).sort_by([("id", "ascending"), ("__START_AT", "ascending")])
        return [tuple(row.values()) for row in rows.to_pylist()] if report.snapshot else None

    assert apply((1, 0, 10, "u"), (1, 0, 30, "u"), (2, 0, 5, "d")) == [(1, 10, None)]
    lake.flush_inlined()
    assert apply((1, 1, 20, "u"), (2, 0, 1, "u")) == [(1, 10, 20), (1, 20, 30), (1, 30, None), (2, 1, 5)]
    assert apply((1, 1, 20, "u"), (1, 0, 30, "u"), (2, 0, 1, "u")) is None


MISTAKES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no such type": ({"stored_as_scd_type": 3}, InvalidInput, "must be 1 or 2"),
    "no sequence": ({"sequence_by": None}, InvalidInput, r"needs one column in sequence_by, and has \[\]"),
    "two sequences": ({"sequence_by": ["lsn", "op"]}, InvalidInput, "make one column of several first"),
    "truncates": ({"apply_as_truncates": "op = 't'"}, InvalidInput, "apply_as_truncates goes with"),
    "parts of rows": ({"ignore_null_updates": True}, InvalidInput, "ignore_null_updates goes with"),
    "tracks what is not there": ({"track_history_columns": "w"}, SchemaMismatch, "track_history_columns has 'w'"),
    "tracks a key": ({"track_history_columns": ["id"]}, SchemaMismatch, "beside its keys"),
    "one row for each key": ({"stored_as_scd_type": 1}, InvalidInput, "keeps versions of its rows"),
    "tracks without versions":
        ({"stored_as_scd_type": 1, "track_history_columns": ["v"]}, InvalidInput, "it needs stored_as_scd_type=2"),
    "other keys": ({"keys": ["id", "v"]}, SchemaMismatch, "keys of a table stay the same"),
}  # fmt: skip


@pytest.mark.parametrize(("changed", "error", "said"), MISTAKES.values(), ids=MISTAKES)
def test_what_makes_no_versions_is_refused(
    lake: Lake, changed: dict[str, Any], error: type[Exception], said: str
) -> None:
    lake.upsert("t", [event(1, "a", 1), event(1, "a", 2)], **RULES)

    with pytest.raises(error, match=said):
        lake.upsert("t", [event(1, "b", 3)], **{**RULES, **changed})


def test_tables_that_cannot_show_versions_are_refused(lake: Lake) -> None:
    lake.create_table("plain", {"id": "int64", "v": "varchar", "note": "varchar"})
    with pytest.raises(SchemaMismatch, match="needs columns '__START_AT' and '__END_AT'"):
        lake.upsert("plain", [event(1, "a", 1)], **RULES)
    lake.append("t", [{"id": 1, "v": v, "note": None, "__START_AT": 1, "__END_AT": None} for v in "ab"])
    with pytest.raises(InvalidInput, match="two versions of a key that begin together"):
        lake.upsert("t", [event(1, "a", 3)], **RULES)
    with pytest.raises(InvalidInput, match="delete with a filter"):
        lake.delete_keys("t", {"id": [1]}, keys=["id"])
