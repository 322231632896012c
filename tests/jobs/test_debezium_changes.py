"""Envelopes of Debezium are applied by key: the table is what the database's is."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ducklake_core.errors import InvalidInput
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.pipelines import DEAD, MakeWriter, make_job
from tests.fixtures.records import record_frame

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)]

Row = dict[str, Any]  # Any: JSON
SCHEMA = "id bigint, `a name` string"


def envelope(op: str, before: Row | None = None, after: Row | None = None) -> bytes:
    return json.dumps({"op": op, "before": before, "after": after, "source": {"lsn": 1}, "ts_ms": 5}).encode()


def row(id_: int, name: str | None = None) -> Row:
    return {"id": id_, "a name": name}


BATCHES: list[list[bytes | None]] = [
    [envelope("r", after=row(1, "Ann")), envelope("r", after=row(2, "Bob")), envelope("c", after=row(3, "Cid"))],
    [
        envelope("u", row(1), row(1, "Anna")),
        envelope("d", row(2)),
        None,  # the tombstone after a delete
        envelope("m"),  # a message of the database, about no row
        envelope("d", row(3)),
        envelope("c", after=row(4, "Cid")),  # the key of 3 has become 4
        b"{}",
    ],
]


def test_table_follows_the_envelopes(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle
) -> None:
    write = make_writer(format="debezium", schema=SCHEMA, sink={"mode": "upsert", "keys": ["id"]}).write

    for batch_id, values in enumerate(BATCHES):
        write(record_frame(spark, values).coalesce(1), batch_id)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT * FROM orders ORDER BY id") == [(1, "Anna"), (4, "Cid")]
    assert oracle.query(f"SELECT reason FROM {DEAD}") == [("the value is no envelope of Debezium: it has no op",)]

    write(record_frame(spark, [envelope("t"), envelope("c", after=row(9, "new"))]).coalesce(1), 2)

    assert oracle.query("SELECT * FROM orders ORDER BY id") == [(1, "Anna"), (4, "Cid"), (9, "new")]
    truncates = oracle.query(f"SELECT row->>'__op' FROM {DEAD} WHERE reason LIKE 'a null in the key column%'")
    assert truncates == [("t",)]


def test_delete_needs_nothing_but_the_key(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle
) -> None:
    strict = "id bigint NOT NULL, `a name` string NOT NULL"
    write = make_writer(format="debezium", schema=strict, sink={"mode": "upsert", "keys": ["id"]}).write

    write(record_frame(spark, [envelope("c", after=row(1, "Ann")), envelope("c", after=row(2, "Bob"))]), 0)
    write(record_frame(spark, [envelope("d", {"id": 1})]), 1)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT * FROM orders") == [(2, "Bob")]


def test_value_that_is_not_told_fails_the_batch_and_is_not_written(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle
) -> None:
    write = make_writer(format="debezium", schema=SCHEMA, sink={"mode": "upsert", "keys": ["id"]}).write
    write(record_frame(spark, [envelope("c", after=row(1, "Ann"))]), 0)

    with pytest.raises(Exception, match="set REPLICA IDENTITY of the table to FULL"):
        write(record_frame(spark, [envelope("u", after=row(1, "__debezium_unavailable_value"))]), 1)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT * FROM orders") == [(1, "Ann")]


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no schema": ({"schema": None, "sink": {"mode": "upsert", "keys": ["id"]}}, "input.schema is missing"),
    "its own deletes": (
        {"schema": SCHEMA, "sink": {"mode": "upsert", "keys": ["id"], "apply_as_deletes": "op = 'd'"}},
        "sink.apply_as_deletes needs transform.sql",
    ),
}


@pytest.mark.parametrize(("given", "message"), MISTAKES.values(), ids=MISTAKES)
def test_what_does_not_go_together_is_told(catalog: Catalog, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_job(catalog, format="debezium", **given)
