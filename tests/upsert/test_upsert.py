"""Upserts by key: what they do to rows, and that DuckDB sees the same."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput, NotNullViolation, SchemaMismatch
from ducklake_core.upsert.catalog_search import Asked, CatalogSearch
from ducklake_core.upsert.report import UpsertReport
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake, stored_files
from tests.fixtures.oracle import Oracle

SCHEMA = {"id": "int64", "name": "varchar", "v": "float64"}
MANY = 40  # above the limit of 10 inlined rows


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", SCHEMA)
        yield lake


def rows(ids: list[int], name: str = "n", **columns: list[Any]) -> dict[str, list[Any]]:
    return {"id": ids, "name": [f"{name}{i}" for i in ids], "v": [float(i) for i in ids], **columns}


def contents(lake: Lake, table: str = "t") -> dict[int, str]:
    found = lake.table(table).read(["id", "name"]).to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["name"] for row in found}


def row_ids(oracle: Oracle) -> dict[int, int]:
    return dict(oracle.query("SELECT id, rowid FROM t"))


def test_rows_are_inserted_updated_and_left_alone_and_keep_their_ids(
    catalog: Catalog, oracle: Oracle, lake: Lake
) -> None:
    lake.append("t", rows(list(range(MANY))))  # a file
    lake.append("t", rows([100, 101]))  # inlined
    oracle.attach(catalog.attach)
    before, files = row_ids(oracle), stored_files(catalog)

    report = lake.upsert("t", rows([1, 2, 100, 200], "new") | {"name": ["new1", "n2", "new100", "new200"]}, keys="id")

    assert (report.inserted, report.updated, report.unchanged) == (1, 2, 1)
    assert (report.files_opened, report.files_pruned) == (1, 0)
    assert contents(lake) == {i: f"n{i}" for i in (*range(MANY), 101)} | {1: "new1", 100: "new100", 200: "new200"}
    after = row_ids(oracle)
    assert {i: after[i] for i in before} == before
    assert stored_files(catalog) == files  # a few rows make no file at all
    assert report.snapshot is not None
    changes = lake.changes("t", report.snapshot.snapshot_id).select(["id", "_change_type", "_rowid"]).to_pylist()
    assert sorted((c["id"], c["_change_type"], c["_rowid"]) for c in changes) == [
        *((i, kind, before[i]) for i in (1, 100) for kind in ("update_postimage", "update_preimage")),
        (200, "insert", after[200]),
    ]
    snapshot = report.snapshot.snapshot_id
    known = oracle.query(f"SELECT id, change_type, rowid FROM table_changes('t', {snapshot}, {snapshot})")
    assert sorted(known) == sorted((c["id"], c["_change_type"], c["_rowid"]) for c in changes)
    check_lake(catalog)


def test_nothing_is_written_where_nothing_differs(lake: Lake) -> None:
    lake.append("t", rows(list(range(MANY))))
    lake.append("t", {"id": [100], "name": [None], "v": [float("nan")]})

    report = lake.upsert("t", {"id": [3, 100], "name": ["n3", None], "v": [3.0, float("nan")]}, keys="id")

    assert (report.unchanged, report.snapshot) == (2, None)


def test_many_changes_go_to_files_and_delete_files(catalog: Catalog, oracle: Oracle, lake: Lake) -> None:
    for first in (0, 100, 200):
        lake.append("t", rows(list(range(first, first + 100))))
    lake.upsert("t", rows([5, 6], "few"), keys="id")  # inlined deletes of a file that gets a delete file next
    oracle.attach(catalog.attach)
    before = row_ids(oracle)

    changed = [*range(50), *range(100, 200)]
    report = lake.upsert("t", rows(changed, "new"), keys="id")

    assert (report.updated, report.files_opened, report.files_pruned) == (150, 2, 1)
    expected = {i: f"new{i}" if i in set(changed) else f"n{i}" for i in range(300)}
    assert contents(lake) == expected == dict(oracle.query("SELECT id, name FROM t"))
    assert row_ids(oracle) == before
    ended = "SELECT count(*) FROM ducklake_data_file WHERE end_snapshot IS NOT NULL"
    assert catalog.query(ended) == [(1,)]  # the file of which nothing is left
    twice = "SELECT d.row_id FROM ducklake_inlined_delete_1 d GROUP BY file_id, row_id HAVING count(*) > 1"
    assert catalog.query(twice) == []
    lake.upsert("t", rows(changed, "again"), keys="id")
    lake.flush_inlined("t")
    assert contents(lake) == {i: n.replace("new", "again") for i, n in expected.items()}
    assert contents(lake) == dict(oracle.query("SELECT id, name FROM t"))
    assert row_ids(oracle) == before
    check_lake(catalog)


def test_keys_of_several_columns_and_types_are_found(lake: Lake) -> None:
    lake.create_table("k", {"a": "varchar", "b": "date", "c": "uuid", "d": "decimal(9,2)", "x": "int32"})
    with_uuid = pa.table({"a": ["ä", "b"], "b": ["2024-01-01", "2024-01-02"], "c": [bytes(16), bytes(range(16))]})
    keys = with_uuid.set_column(1, "b", with_uuid["b"].cast(pa.date32()))
    keys = keys.set_column(2, "c", pa.array(keys["c"].to_pylist(), pa.binary(16)).cast(pa.uuid()))
    keys = keys.append_column("d", pa.array([1, 2], pa.decimal128(9, 2)))
    names = ["a", "b", "c", "d"]
    assert lake.upsert("k", keys.append_column("x", pa.array([1, 1], pa.int32())), keys=names).inserted == 2
    assert lake.upsert("k", keys.append_column("x", pa.array([2, 2], pa.int32())), keys=names).updated == 2
    crossed = keys.set_column(0, "a", pa.array(["b", "ä"])).append_column("x", pa.array([3, 3], pa.int32()))
    assert lake.upsert("k", crossed, keys=names).inserted == 2


def test_partitions_and_statistics_leave_files_out(lake: Lake) -> None:
    lake.create_table("p", {"region": "varchar", "id": "int64"}, partition_by=["region", "bucket(4, id)"])
    lake.set_option("data_inlining_row_limit", 0, table="p")
    lake.append("p", {"region": ["eu"] * 40 + ["us"] * 40, "id": [*range(40), *range(40)]})

    report = lake.upsert("p", {"region": ["eu"], "id": [7]}, keys=["region", "id"])

    assert (report.unchanged, report.files_opened, report.files_pruned) == (1, 2, 6)  # a number has two hashes


def test_deletes_by_condition_and_by_key(lake: Lake) -> None:
    lake.append("t", rows(list(range(MANY))))
    events = rows([1, 2, 3, 3], "new", op=["d", "u", "d", "u"])
    report = lake.upsert("t", events, keys=["id"], apply_as_deletes="op = 'd'", except_columns=["op"])
    assert (report.deleted, report.updated, report.superseded) == (1, 2, 1)
    assert contents(lake)[3] == "new3"

    assert lake.delete_keys("t", {"id": [3, 4, 4, 999]}, keys="id").deleted == 2
    assert set(contents(lake)) == set(range(MANY)) - {1, 3, 4}


def test_a_truncate_empties_the_table_before_the_events_after_it(lake: Lake) -> None:
    lake.append("t", rows(list(range(MANY))))
    events = {"id": [1, None, 2], "name": ["a", None, "b"], "v": [1.0, None, 2.0], "op": ["u", "t", "u"]}

    report = lake.upsert("t", events, keys="id", apply_as_truncates="op = 't'", except_columns=["op"])

    assert (report.truncated, report.inserted, contents(lake)) == (MANY, 1, {2: "b"})


def test_nulls_and_missing_columns_keep_what_rows_have(lake: Lake) -> None:
    lake.append("t", rows([1, 2]))
    events = {"id": [1, 1, 2, 2, 3], "name": ["x", None, "y", None, None], "v": [None, 9.0, None, None, None]}
    lake.upsert(
        "t",
        events | {"d": [False, False, True, False, False]},
        keys="id",
        ignore_null_updates=True,
        apply_as_deletes="d",
        except_columns=["d"],
    )
    found = sorted(lake.table("t").read().to_pylist(), key=lambda row: row["id"])
    assert found == [
        {"id": 1, "name": "x", "v": 9.0},
        {"id": 2, "name": None, "v": None},  # deleted and inserted again: nothing is kept
        {"id": 3, "name": None, "v": None},
    ]
    lake.upsert("t", {"id": [1], "v": [10.0]}, keys="id", fill_missing=True)
    assert contents(lake)[1] == "x"


def test_several_changes_of_a_table_in_one_transaction_follow_on_each_other(catalog: Catalog, lake: Lake) -> None:
    lake.append("t", rows([1, 2, 3]))
    with lake.transaction() as tx:
        tx.append("t", rows([4]))
        tx.append("t", rows(list(range(100, 100 + MANY))))
        tx.upsert("t", rows([1, 4, 5, 100], "new"), keys="id")
        tx.upsert("t", rows([1, 5, 101], "newer"), keys="id")
        tx.delete_keys("t", {"id": [4, 102, 2]}, keys="id")
    expected = {i: f"n{i}" for i in (3, *range(103, 100 + MANY))}
    assert contents(lake) == expected | {1: "newer1", 5: "newer5", 100: "new100", 101: "newer101"}
    check_lake(catalog)


@pytest.mark.parametrize(
    ("data", "arguments", "error", "said"),
    [
        ({"id": [1, None], "name": ["a", "b"], "v": [1.0, 2.0]}, {}, InvalidInput, "null in the key column 'id'"),
        (rows([1]) | {"s": [None]}, {"sequence_by": "v", "except_columns": ["s"]}, InvalidInput, "no order"),
        (rows([1]) | {"x": [1]}, {}, SchemaMismatch, "except_columns"),
        ({"id": [1]}, {}, SchemaMismatch, "lack column 'name'"),
        (rows([1]), {"keys": ["v"]}, InvalidInput, "cannot be a key"),
        (rows([1]), {"keys": ["nope"]}, SchemaMismatch, "no key column 'nope'"),
        (rows([1]), {"keys": []}, InvalidInput, "needs keys"),
        (
            rows([1]),
            {"except_columns": ["ID"], "fill_missing": True},
            InvalidInput,
            r"except_columns has the key \['id'\]",
        ),
        (rows([1]) | {"ID": [2]}, {}, SchemaMismatch, "have column 'id' twice"),
        (rows([1]) | {"S": [1], "s": [2]}, {"sequence_by": "s", "except_columns": ["s"]}, SchemaMismatch, "'S' twice"),
        (rows([1]), {"on_duplicate_keys": "what"}, InvalidInput, "on_duplicate_keys"),
        (rows([1]), {"keep_deleted_keys": "soon"}, InvalidInput, "keep_deleted_keys"),
    ],
)
def test_what_cannot_be_applied_is_refused_by_name(
    lake: Lake, data: dict[str, list[Any]], arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        lake.upsert("t", data, **{"keys": "id", **arguments})


def test_keys_that_the_table_has_twice_are_named_or_reduced_to_one(lake: Lake) -> None:
    lake.append("t", rows([1, 2]))
    lake.append("t", rows([1, 1], "other"))
    with pytest.raises(InvalidInput, match=r"more than once, such as \[\{'id': 1\}\]"):
        lake.upsert("t", rows([1, 2]), keys="id")
    lake.upsert("t", rows([1, 2]), keys="id", on_duplicate_keys="keep_first")
    assert contents(lake) == {1: "n1", 2: "n2"}


KEY_VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int8": [-1, 5],
    "uint64": [2**63 + 1, 3],
    "int128": [Decimal(5), Decimal(2**100)],
    "decimal(38,4)": [Decimal("1.5"), Decimal(-2)],
    "blob": [b"\0a", b"b"],
    "uuid": [bytes(16), bytes(range(16))],
    "date": [date(2020, 1, 1), date(1900, 1, 1)],
    "time": [time(1), time(2)],
    "timestamp": [datetime(2020, 1, 1), datetime(2021, 1, 1)],  # noqa: DTZ001 # of no zone
    "timestamptz": [datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)],
}


@pytest.mark.parametrize("inline_rows", [0, 10])
def test_keys_of_every_type_are_found_in_files_and_in_the_catalog(lake: Lake, inline_rows: int) -> None:
    for number, (type_, values) in enumerate(KEY_VALUES.items()):
        name = f"t{number}"
        lake.create_table(name, {"k": type_, "x": "int64"})
        keys = pa.array(values, lake.table(name).schema.field("k").type)
        for x, expected in ((2, (2, 0, 0)), (3, (0, 1, 1))):
            report = lake.upsert(name, pa.table({"k": keys, "x": [1, x]}), keys="k", inline_rows=inline_rows)
            assert (report.inserted, report.updated, report.unchanged) == expected, type_


def test_nothing_of_a_deleted_row_is_in_the_one_that_follows_it(lake: Lake) -> None:
    lake.create_table("p", {"id": "int64", "a": "int64", "b": "int64", "c": "int64"}, defaults={"c": 7})
    lake.append("p", {"id": [1, 2, 3], "a": [5, 5, 5], "b": [6, None, 6], "c": [8, 7, 8]})

    events = {"id": [1, 1, 2, 2, 3, 3], "a": [5, 5, 5, 5, 5, 9], "op": ["d", "c"] * 3}
    rules: dict[str, Any] = {"keys": "id", "apply_as_deletes": "op = 'd'", "except_columns": ["op"]}
    report = lake.upsert("p", events, **rules, fill_missing=True)

    assert (report.updated, report.unchanged) == (2, 1)
    found = sorted(tuple(row.values()) for row in lake.table("p").read().to_pylist())
    assert found == [(1, 5, None, 7), (2, 5, None, 7), (3, 9, None, 7)]


def test_missing_columns_that_forbid_nulls_stay_as_they_are(lake: Lake) -> None:
    id_, v, n = (pa.field(name, pa.int64(), nullable=name != "n") for name in ("id", "v", "n"))
    lake.create_table("p", pa.schema([id_, v, n]))
    lake.append("p", {"id": [1, 2], "v": [1, 1], "n": [5, 6]})
    rules: dict[str, Any] = {"keys": "id", "fill_missing": True}

    assert lake.upsert("p", {"id": [1], "v": [2]}, **rules).updated == 1

    assert {row["id"]: row["n"] for row in lake.table("p").read().to_pylist()} == {1: 5, 2: 6}
    for events in ({"id": [3], "v": [2], "d": [False]}, {"id": [1, 1], "v": [2, 3], "d": [True, False]}):
        with pytest.raises(NotNullViolation, match="column 'n'"):  # a new row
            lake.upsert("p", events, **rules, apply_as_deletes="d", except_columns=["d"])


def test_events_that_are_refused_as_they_come_leave_the_transaction_as_it_was(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.append("t", rows([1]))
        with pytest.raises(InvalidInput, match="null in the key column"):
            tx.upsert("t", {"id": [None], "name": ["a"], "v": [1.0]}, keys="id")
    assert contents(lake) == {1: "n1"}


def test_the_row_that_is_kept_of_a_key_is_a_committed_one(catalog: Catalog, oracle: Oracle, lake: Lake) -> None:
    lake.append("t", rows([1, 2]))
    with lake.transaction() as tx:
        tx.append("t", rows([2], "again"))
        tx.upsert("t", rows([2], "new"), keys="id", on_duplicate_keys="keep_first")
    oracle.attach(catalog.attach)
    assert (contents(lake), row_ids(oracle)) == ({1: "n1", 2: "new2"}, {1: 0, 2: 1})


@pytest.mark.parametrize("type_", ["date", "int64", "varchar", "uuid"])
def test_inlined_rows_are_found_page_by_page_and_by_pieces_of_many_keys(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, type_: str
) -> None:
    """Some keys the database cannot compare; of others one statement names only so many."""
    monkeypatch.setattr("ducklake_core.upsert.catalog_search._PAGE_ROWS", 3)
    monkeypatch.setattr(type(lake.database.dialect.inlined), "most_values", 2)
    made: dict[str, Callable[[int], object]] = {
        "date": lambda i: date(2024, 1, 1 + i),
        "int64": lambda i: i,
        "varchar": lambda i: f'"\\{i},é',
        "uuid": lambda i: str(UUID(int=i)),
    }
    lake.set_option("data_inlining_row_limit", 100)
    lake.create_table("keyed", {"k": type_, "v": "int64"})

    def upsert(numbers: list[int], value: int) -> UpsertReport:
        return lake.upsert("keyed", {"k": [made[type_](i) for i in numbers], "v": [value] * len(numbers)}, keys="k")

    assert upsert(list(range(8)), 1).inserted == 8
    report = upsert([1, 4, 5, 6, 7, 9], 2)
    assert (report.updated, report.inserted) == (5, 1)
    assert sorted(lake.table("keyed").read()["v"].to_pylist()) == [1, 1, 1, 2, 2, 2, 2, 2, 2]
    assert report.files_opened == 0


def test_a_file_of_others_that_was_replaced_is_searched_as_it_is_now(lake: Lake, tmp_path: Path) -> None:
    """It has the same path and the same size as the one before, whose footer says that it has other keys."""
    path = tmp_path / "theirs.parquet"
    for name, first in (("before", 0), ("after", 100)):
        columns = {"id": pa.array(range(first, first + 10), pa.int64()), "v": pa.array([0] * 10, pa.int64())}
        pq.write_table(pa.table(columns), path, compression="none", use_dictionary=False)
        lake.create_table(name, {"id": "int64", "v": "int64"})
        lake.add_data_files(name, [str(path)])
        assert lake.upsert(name, {"id": [first + 3], "v": [5]}, keys="id").updated == 1
        if name == "before":
            lake.delete(name, None)


@pytest.mark.parametrize("coarse", ["varchar", "date"])
def test_no_more_inlined_rows_come_than_all_key_columns_together_say(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, coarse: str
) -> None:
    """The first key column is the same in all rows, or one that the database cannot compare."""
    ask, shipped = CatalogSearch.ask, list[int]()

    def counted(search: CatalogSearch, *arguments: Any) -> Asked | None:  # Any: passed on
        asked = ask(search, *arguments)
        shipped.append(0 if asked is None else sum(part.rows.num_rows for part in asked.inlined))
        return asked

    lake.set_option("data_inlining_row_limit", 100)
    lake.create_table("keyed", {"tenant": coarse, "id": "int64", "v": "int64"})
    tenant = "acme" if coarse == "varchar" else date(2024, 1, 1)
    lake.append("keyed", {"tenant": [tenant] * 50, "id": list(range(50)), "v": [0] * 50})
    monkeypatch.setattr(CatalogSearch, "ask", counted)

    events = {"tenant": [tenant] * 3, "id": [5, 6, 99], "v": [1] * 3}
    reports = [lake.upsert("keyed", events, keys=keys) for keys in (["tenant", "id"], ["id", "tenant"])]
    one = lake.upsert("keyed", {"tenant": [tenant], "id": [7], "v": [1]}, keys=["tenant", "id"])

    assert [(r.updated, r.inserted, r.unchanged) for r in (*reports, one)] == [(2, 1, 0), (0, 0, 3), (1, 0, 0)]
    assert [count for count in shipped if count] == [2, 3, 1]
