"""The order of events: what is late changes nothing, however events are cut into batches, wherever it is kept."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.clock import Clock
from ducklake_core.errors import InvalidInput, SchemaMismatch
from ducklake_core.upsert.companion import SCHEMA, companion_name
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle

BESIDE: dict[str, Any] = {
    "keys": "id",
    "sequence_by": "lsn",
    "apply_as_deletes": "op = 'd'",
    "except_columns": ["op", "lsn"],
}
INSIDE: dict[str, Any] = {**BESIDE, "except_columns": ["op"]}


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        self.time += timedelta(microseconds=1)
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def lake(catalog: Catalog, clock: Hands) -> Iterator[Lake]:
    with Lake.create(catalog.url, catalog.data_path, clock=Clock(now=clock.now)) as lake:
        lake.create_table("beside", {"id": "int64", "v": "varchar"})
        lake.create_table("inside", {"id": "int64", "v": "varchar", "lsn": "int64"})
        yield lake


def event(id_: int, v: str | None, lsn: int | None, op: str = "u") -> dict[str, Any]:
    return {"id": id_, "v": v, "lsn": lsn, "op": op}


def apply(lake: Lake, *events: dict[str, Any]) -> tuple[dict[int, str], dict[int, str]]:
    """Apply events to both tables, and return what these hold then."""
    lake.upsert("beside", list(events), **BESIDE)
    lake.upsert("inside", list(events), **INSIDE)
    first, second = (
        {row["id"]: row["v"] for row in lake.table(name).read(["id", "v"]).to_pylist()} for name in ("beside", "inside")
    )
    return first, second


def test_late_events_change_nothing_wherever_their_order_is_kept(lake: Lake) -> None:
    apply(lake, event(1, "a5", 5), event(1, "a4", 4), event(2, "b1", 1))
    assert apply(lake, event(1, "a3", 3), event(2, "b2", 2)) == ({1: "a5", 2: "b2"},) * 2
    apply(lake, event(1, None, 8, "d"), event(3, None, 8, "d"))
    assert apply(lake, event(1, "a7", 7), event(3, "c7", 7)) == ({2: "b2"},) * 2
    assert apply(lake, event(1, "a9", 9), event(3, "c8", 8)) == ({1: "a9", 2: "b2", 3: "c8"},) * 2
    assert apply(lake, event(1, "a8", 8)) == ({1: "a9", 2: "b2", 3: "c8"},) * 2


def test_an_event_that_leaves_the_row_as_it_is_moves_its_sequence_on(lake: Lake) -> None:
    apply(lake, event(1, "a", 5))
    report = lake.upsert("beside", [event(1, "a", 9)], **BESIDE)
    assert (report.unchanged, report.updated) == (1, 0)
    assert apply(lake, event(1, "b", 7))[0] == {1: "a"}


def test_deleted_keys_are_forgotten_after_their_time(lake: Lake, clock: Hands) -> None:
    apply(lake, event(1, "a", 5), event(2, "b", 5))
    apply(lake, event(1, None, 8, "d"))
    name = companion_name(lake.table("inside").version)
    assert [row["key_1"] for row in lake.table(name).read().to_pylist()] == [1]
    clock.sleep(8 * 86400)
    apply(lake, event(2, None, 9, "d"))
    assert [row["key_1"] for row in lake.table(name).read().to_pylist()] == [2]
    assert apply(lake, event(1, "again", 6), event(2, "late", 6)) == ({1: "again"},) * 2


def test_a_key_that_comes_back_is_no_deleted_key_any_more(lake: Lake) -> None:
    apply(lake, event(1, "a", 5), event(1, None, 6, "d"))
    apply(lake, event(1, "b", 7))
    name = companion_name(lake.table("inside").version)
    assert lake.table(name).count() == 0


def test_duckdb_users_see_the_table_as_it_was_declared(catalog: Catalog, oracle: Oracle, lake: Lake) -> None:
    apply(lake, event(1, "a", 5))
    oracle.attach(catalog.attach)
    oracle.execute("INSERT INTO beside VALUES (2, 'duckdb')")
    assert oracle.query("SELECT * FROM beside ORDER BY id") == [(1, "a"), (2, "duckdb")]
    assert apply(lake, event(2, "b", 1))[0] == {1: "a", 2: "b"}
    schemas = "SELECT DISTINCT schema_name FROM duckdb_tables() WHERE database_name = 'lake' ORDER BY 1"
    assert oracle.query(schemas) == [(SCHEMA,), ("main",)]


def test_renamed_table_and_wider_keys_keep_their_companion(lake: Lake) -> None:
    lake.create_table("narrow", {"id": "int32", "v": "varchar"})
    lake.upsert("narrow", [event(1, "a", 5)], **BESIDE)
    lake.rename_table("narrow", "wide")
    lake.promote_column("wide", "id", "int64")
    assert lake.upsert("wide", [event(1, "b", 4), event(2**40, "c", 1)], **BESIDE).late == 1
    assert lake.upsert("wide", [event(2**40, "c", 0)], **BESIDE).late == 1


@pytest.mark.parametrize(
    ("events", "changed", "error", "said"),
    [
        ([event(1, "a", None), event(2, "b", 2)], {}, InvalidInput, "null in the sequence column 'lsn'"),
        ([event(1, "a", 1)], {"sequence_by": ["id", "lsn"]}, InvalidInput, "all of one kind"),
        ([event(1, "a", 1)], {"sequence_by": ["op", "lsn"]}, SchemaMismatch, "stay the same"),
    ],
)
def test_what_gives_no_order_is_refused(
    lake: Lake, events: list[dict[str, Any]], changed: dict[str, Any], error: type[Exception], said: str
) -> None:
    apply(lake, event(9, "z", 1))
    with pytest.raises(error, match=said):
        lake.upsert("beside", events, **{**BESIDE, **changed})


@pytest.mark.parametrize(
    "changed",
    [{"keys": "b"}, {"keys": ["b", "a"]}, {"sequence_by": "ts"}, {"sequence_by": "n"}],
    ids=repr,
)
def test_other_keys_than_those_of_the_companion_are_refused(lake: Lake, changed: dict[str, Any]) -> None:
    lake.create_table("t", {"a": "int64", "b": "int64", "n": "int64"})
    rules: dict[str, Any] = {"keys": "a", "sequence_by": "lsn", "except_columns": ["lsn", "ts", "op"]}
    if len(changed.get("keys", "")) == 2:
        rules["keys"] = ["a", "b"]
    events = {"a": [1], "b": [2], "n": [3], "lsn": [100], "ts": [5], "op": ["d"]}
    lake.upsert("t", events, **rules)

    with pytest.raises(SchemaMismatch, match=r"keys and sequence_by of a table stay the same"):
        lake.upsert("t", events, **{**rules, **changed}, apply_as_deletes="op = 'd'")

    lake.rename_column("t", "a", "A2")
    renamed = {("A2" if name == "a" else name): values for name, values in events.items()}
    keys = ["A2" if name == "a" else name for name in rules["keys"]]
    assert lake.upsert("t", renamed, **{**rules, "keys": keys}).unchanged == 1


def test_a_companion_without_comments_is_taken_as_it_is(lake: Lake) -> None:
    apply(lake, event(1, "a", 5))
    name = companion_name(lake.table("beside").version)
    for column in ("key_1", "sequence_1"):
        lake.set_comment(name, None, column)
    assert apply(lake, event(1, "b", 4))[0] == {1: "a"}


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("where", [INSIDE, BESIDE], ids=["inside", "beside"])
def test_late_events_of_a_batch_say_nothing_of_a_row_that_a_later_one_changes_in_part(
    lake: Lake,
    where: dict[str, Any],
    is_cut: bool,  # noqa: FBT001 # a parameter
) -> None:
    def apply_parts(*events: tuple[int, int | None, int | None, int, str]) -> None:
        names = ("id", "a", "b", "lsn", "op")
        found = [pa.array([e[i] for e in events], pa.string() if i == 4 else pa.int64()) for i in range(5)]
        lake.upsert("parts", pa.table(found, names=names), **where, ignore_null_updates=True)

    lake.create_table("parts", {"id": "int64", "a": "int64", "b": "int64"})
    if where is INSIDE:
        lake.add_column("parts", "lsn", "int64")
    apply_parts(*((i, 9, 9, 15, "u") for i in (1, 2, 3, 4)))
    first = [(1, 1, None, 10, "u"), (2, None, None, 10, "d"), (3, 1, None, 15, "u"), (4, None, None, 15, "d")]
    second = [(i, None, 2, 20, "u") for i in (1, 2, 3, 4)]
    if is_cut:
        apply_parts(*first)
        apply_parts(*second)
    else:
        apply_parts(*first, *second)

    found = {row["id"]: (row["a"], row["b"]) for row in lake.table("parts").read().to_pylist()}
    assert found == {1: (9, 2), 2: (9, 2), 3: (1, 2), 4: (None, 2)}


def test_sequences_that_do_not_compare_with_those_kept_are_refused_by_name(lake: Lake) -> None:
    def apply_decimal(text: str, scale: int) -> int:
        lsn = pa.array([Decimal(text)], pa.decimal128(38, scale))
        return lake.upsert("beside", pa.table({"id": [1], "v": [text], "lsn": lsn, "op": ["u"]}), **BESIDE).late

    assert (apply_decimal("7", 0), apply_decimal("6.00", 2), apply_decimal("8.00", 2)) == (0, 1, 0)
    with pytest.raises(SchemaMismatch, match=r"cast it in the events"):
        apply_decimal("9.5", 1)
    with pytest.raises(SchemaMismatch, match=r"sequence_1' is decimal\(38,0\), but the data has string"):
        lake.upsert("beside", [{**event(1, "a", 1), "lsn": "x"}], **BESIDE)


def test_a_truncate_forgets_the_sequences_of_rows_and_keeps_those_of_deleted_keys(lake: Lake) -> None:
    apply(lake, event(1, "a", 50), event(2, "b", 50), event(3, "c", 50))
    apply(lake, event(3, None, 60, "d"))
    for name, where in (("beside", BESIDE), ("inside", INSIDE)):
        lake.upsert(name, [event(0, None, 10, "t")], **where, apply_as_truncates="op = 't'")
        kept = lake.table(companion_name(lake.table(name).version)).read().to_pylist()
        assert [row["key_1"] for row in kept] == [3]

    assert apply(lake, event(1, "a5", 5), event(3, "c55", 55)) == ({1: "a5"},) * 2
