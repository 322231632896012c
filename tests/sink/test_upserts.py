"""Changes that a stream brings are applied by key, each epoch exactly once; DuckDB reads the same."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import CommitResult, Lake, Transaction
from ducklake_core.errors import InvalidInput
from ducklake_sinks import DuckLakeSink
from ducklake_sinks.spark_tasks import SparkRunner
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.sinks import MakeSink

pytestmark = pytest.mark.slow

RULES: dict[str, Any] = {
    "mode": "upsert",
    "table": "main.customers",
    "keys": ["id"],
    "sequence_by": "lsn",
    "apply_as_deletes": "op = 'd'",
    "except_columns": ["op", "lsn"],
}
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no keys": ({"mode": "upsert"}, "mode 'upsert' needs keys"),
    "keys of an append": ({"keys": ["id"]}, "keys says how changes are applied: it needs mode='upsert'"),
    "no such mode": ({"mode": "merge"}, "'append' or 'upsert'"),
    "keys that are no names": ({"mode": "upsert", "keys": [1]}, "a column's name, or a list of them"),
    "versions in no order": (
        {"mode": "upsert", "keys": "id", "stored_as_scd_type": 2},
        "needs one column in sequence_by",
    ),
    "no such type": (
        {"mode": "upsert", "keys": "id", "stored_as_scd_type": "two"},
        "stored_as_scd_type is 'two', .*1 or 2",
    ),
}


def changes(spark: SparkSession, *rows: tuple[int | None, str | None, str, int | None]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id BIGINT, name STRING, op STRING, lsn BIGINT").coalesce(1)


def customers(oracle: Oracle, catalog: Catalog) -> Sequence[tuple[Any, ...]]:
    oracle.attach(catalog.attach)
    return oracle.query("SELECT * FROM lake.main.customers ORDER BY ALL")


def test_changes_of_a_stream_are_applied_by_key(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    sink = make_sink(**RULES)

    sink(changes(spark, (1, "Ann", "c", 1), (2, "Bob", "c", 2), (1, "Anna", "u", 3), (3, "Cid", "c", 4)), 0)
    sink(changes(spark, (2, None, "d", 6), (3, "late", "u", 1), (4, "Dan", "c", 7)), 1)
    sink(changes(spark, (2, "late", "u", 5), (4, "Dan", "u", 8)), 2)
    sink(changes(spark, (2, "late", "u", 5), (4, "Dan", "u", 8)), 2)  # Spark repeats a batch

    assert customers(oracle, catalog) == [(1, "Anna"), (3, "Cid"), (4, "Dan")]
    with Lake.open(catalog.url) as lake:
        entry = lake.ledger_entry("s")
        assert entry is not None
        assert entry.batch_id == 2
        shown = lake.changes("main.customers", 0, lake.snapshots()[-1].snapshot_id).to_pylist()
    found = Counter((change["_change_type"], change["id"]) for change in shown)
    assert found == Counter([("insert", 1), ("insert", 2), ("insert", 3), ("delete", 2), ("insert", 4)])
    check_lake(catalog, orphans=0)


@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_executors_search_files_with_many_rows(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, searched, run = make_sink(**RULES, inline_rows=0), [], SparkRunner.__call__

    def counted(self: SparkRunner, function: Any, tasks: Any) -> Iterator[Any]:  # Any: as they are given
        searched.append(len(tasks))
        return run(self, function, tasks)

    monkeypatch.setattr(SparkRunner, "__call__", counted)
    monkeypatch.setattr("ducklake_core.upsert.search_tasks.LARGE_ROWS", 4)
    sink(changes(spark, (1, "Ann", "c", 1), (2, "Bob", "c", 2), (3, "Cid", "c", 3)), 0)
    sink(changes(spark, (4, "Dan", "c", 4), (5, "Eve", "c", 5), (6, "Fay", "c", 6)), 1)  # of the first file, too few

    sink(changes(spark, (2, None, "d", 7), (3, "Cid", "u", 8), (4, "late", "u", 1), (5, "Eva", "u", 9)), 2)

    assert searched == [2], "two files of the table: what is kept beside it is in the catalog"
    assert customers(oracle, catalog) == [(1, "Ann"), (3, "Cid"), (4, "Dan"), (5, "Eva"), (6, "Fay")]
    check_lake(catalog, orphans=0)


def test_several_tables_change_in_one_snapshot(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    sink = make_sink()
    with sink.transaction(0, spark) as tx:
        tx.append(spark.range(5).selectExpr("id", "'x' AS more"), "main.orders")
    batch = changes(spark, (1, "Ann", "c", 1), (1, "Anna", "u", 2))

    with sink.transaction(1, spark) as tx:
        tx.upsert(batch, "main.customers", keys=["id"], sequence_by="lsn")
        tx.append(batch, "main.log")
        tx.delete(spark.range(2), "main.orders", keys=["id"])

    assert tx.result is not None
    assert tx.result.snapshot is not None
    assert customers(oracle, catalog) == [(1, "Anna", "u", 2)]
    assert oracle.query("SELECT count(*) FROM lake.main.log") == [(2,)]
    assert oracle.query("SELECT list(id ORDER BY id) FROM lake.main.orders") == [([2, 3, 4],)]
    before = f"AT (VERSION => {tx.result.snapshot.snapshot_id - 1})"
    assert oracle.query(f"SELECT count(*) FROM lake.main.orders {before}") == [(5,)]


def test_changes_without_a_number_are_applied_again_each_time(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    sink = make_sink(**RULES)

    results = [sink.upsert(changes(spark, (1, name, "u", 1))) for name in ("Ann", "Anna", "Anna")]

    assert results[-1].snapshot is None, "nothing had changed"
    assert customers(oracle, catalog) == [(1, "Anna")]


def test_changes_that_nobody_can_apply_are_quarantined_with_their_reason(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    sink = make_sink(**RULES, on_bad_row="quarantine")

    sink(changes(spark, (1, "Ann", "c", 1), (None, "nobody", "c", 2), (3, "when?", "c", None)), 0)

    assert customers(oracle, catalog) == [(1, "Ann")]
    letters = oracle.query("SELECT reason FROM lake.main.customers_dead_letters ORDER BY reason")
    assert letters == [("a null in the key column 'id'",), ("a null in the sequence column 'lsn'",)]


def test_change_without_a_key_fails_the_batch(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    sink = make_sink(**RULES)

    with pytest.raises(InvalidInput, match="null in the key column 'id'"):
        sink(changes(spark, (1, "Ann", "c", 1), (None, "nobody", "c", 2)), 0)

    with Lake.open(catalog.url) as lake:
        assert lake.ledger_entry("s") is None


def test_another_writer_of_the_same_key_makes_no_second_row(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    """It comes between the rows that the sink has read and its commit: the batch is planned anew."""
    sink = make_sink(**RULES)
    sink(changes(spark, (1, "Ann", "c", 1)), 0)
    rivals = iter(["Eve"])
    commit = Transaction.commit

    def insert_and_commit(self: Transaction) -> CommitResult:
        for name in rivals:
            with Lake.open(catalog.url) as lake:
                lake.append("main.customers", {"id": [2], "name": [name]})
        return commit(self)

    with patch.object(Transaction, "commit", insert_and_commit):
        sink(changes(spark, (2, "Bob", "c", 2)), 1)

    assert customers(oracle, catalog) == [(1, "Ann"), (2, "Bob")]


def test_large_appends_beside_changes_follow_on_each_other(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    """The rows to append are files, which are written once; the changes are looked for in the last snapshot."""
    sink = make_sink(inline_rows=10)

    for number in range(3):
        with sink.transaction(number, spark) as tx:
            tx.append(spark.range(2000).coalesce(1), "main.log")
            tx.upsert(changes(spark, (1, f"n{number}", "u", number)), "main.customers", keys=["id"])

    assert customers(oracle, catalog) == [(1, "n2", "u", 2)]
    assert oracle.query("SELECT count(*) FROM lake.main.log") == [(6000,)]
    check_lake(catalog, orphans=0)


def test_names_of_columns_and_tables_may_come_from_anywhere(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    rules = {**RULES, "table": None, "route": "name", "except_columns": ["OP", "Lsn", "name"]}
    sink = make_sink(**rules, on_bad_row="quarantine")

    sink(changes(spark, (1, "main.customers", "c", 1), (2, "main.customers", "c", 2)), 0)
    with sink.transaction(1, spark) as tx:
        tx.delete(changes(spark, (1, "main.customers", "c", 1)))

    assert customers(oracle, catalog) == [(2,)]


def test_rows_are_not_appended_to_a_table_that_is_kept_by_key(spark: SparkSession, make_sink: MakeSink) -> None:
    with pytest.raises(InvalidInput, match=r"use sink\.upsert"):
        make_sink(**RULES).append(changes(spark, (1, "Ann", "c", 1)))


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told_before_anything_is_opened(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        DuckLakeSink("sqlite:///nowhere.sqlite", "main.t", **arguments)


def test_a_stream_keeps_all_versions_of_a_row(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    """Late changes find their place, a repeated batch changes nothing, and what has no place is a dead letter."""
    sink = make_sink(**RULES, stored_as_scd_type=2, track_history_columns=["name"], on_bad_row="quarantine")

    sink(changes(spark, (1, "Ann", "c", 10), (1, "Anna", "u", 30), (2, "Bob", "c", 10), (3, "Cid", "c", None)), 0)
    second = changes(spark, (1, "Annie", "u", 20), (2, None, "d", 40), (2, "Bob", "u", 50))
    sink(second, 1)
    sink(second, 1)  # Spark repeats a batch
    assert sink.upsert(second).snapshot is None, "changes that are known change nothing"
    sink.upsert(changes(spark, (1, "Anna", "u", 40)), track_history_columns=[])

    assert customers(oracle, catalog) == [
        *((1, "Ann", 10, 20), (1, "Anna", 30, None), (1, "Annie", 20, 30), (2, "Bob", 10, 40), (2, "Bob", 50, None)),
    ]
    assert oracle.query("DESCRIBE lake.main.customers")[-1][:2] == ("__END_AT", "BIGINT")
    letters = oracle.query("SELECT reason FROM lake.main.customers_dead_letters")
    assert letters == [("a null in the sequence column 'lsn'",)]
    with pytest.raises(InvalidInput, match="keeps versions of its rows"), sink.transaction(2, spark) as tx:
        tx.delete(changes(spark, (1, None, "d", 90)))
    check_lake(catalog, orphans=0)
