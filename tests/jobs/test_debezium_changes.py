"""Envelopes of Debezium are applied by key: the table is what the database's is."""

import json
from base64 import b64encode
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ducklake_core.errors import InvalidInput, UntoldValue
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


def test_update_that_changes_the_key_leaves_no_row_of_the_old_one(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle
) -> None:
    """Of a table without a primary key Debezium sends an update with both keys, and no delete of the old one."""
    write = make_writer(format="debezium", schema=SCHEMA, sink={"mode": "upsert", "keys": ["ID"]}).write
    write(record_frame(spark, [envelope("c", after=row(i, "old")) for i in (1, 2, 5, 7)]).coalesce(1), 0)

    second = [
        envelope("u", row(1, "old"), row(2, "moved")),  # after another has left the key
        envelope("u", row(2, "old"), row(3, "first")),
        envelope("u", row(3, "first"), row(4, "second")),
        envelope("c", after=row(3, "new")),
        envelope("u", row(5, "old"), row(5, "same key")),
        envelope("u", None, row(6, "nothing of before")),
        envelope("u", {"a name": "old"}, row(7, "no key of before")),
    ]
    write(record_frame(spark, [second[1], second[0], *second[2:]]).coalesce(1), 1)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT * FROM orders ORDER BY id") == [
        *((2, "moved"), (3, "new"), (4, "second"), (5, "same key")),
        *((6, "nothing of before"), (7, "no key of before")),
    ]


LARGE = "id bigint, numbers array<int>, v bigint, doc string, data binary, tags array<string>, props map<string,string>"
UNTOLD = "__debezium_unavailable_value"
UNTOLD_BYTES = b64encode(UNTOLD.encode()).decode()


def large(id_: int, v: int, *values: Any) -> Row:  # Any: JSON
    return {"id": id_, "v": v, **dict(zip(("numbers", "doc", "data", "tags", "props"), values, strict=True))}


def test_value_that_is_not_told_is_what_the_row_has(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle
) -> None:
    write = make_writer(format="debezium", schema=LARGE, sink={"mode": "upsert", "keys": ["id"]}).write
    told = [7], "d", b64encode(b"raw").decode(), ["t"], {"k": "v"}
    untold = list(UNTOLD.encode()), UNTOLD, UNTOLD_BYTES, [UNTOLD], {UNTOLD: UNTOLD}
    write(record_frame(spark, [envelope("c", after=large(1, 1, *told)), envelope("c", after=large(2, 1, *told))]), 0)

    second = [
        envelope("u", after=large(1, 2, *untold)),
        envelope("u", after=large(2, 2, None, UNTOLD_BYTES, None, [UNTOLD, "x"], {})),  # bytes as a text
        envelope("u", after=large(9, 2, *untold)),
    ]
    write(record_frame(spark, second).coalesce(1), 1)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT * FROM orders ORDER BY id") == [
        (1, [7], 2, "d", b"raw", ["t"], {"k": "v"}),
        (2, None, 2, "d", None, [UNTOLD, "x"], {}),
    ]
    reason = "the table has no row with this key, and the change does not tell all of its values: not those of %'doc'%"
    found = oracle.query(f'SELECT "partition", "offset" FROM {DEAD} WHERE reason LIKE $${reason}$$')
    assert found == [(0, 1)]


def test_value_that_is_not_told_fails_the_batch_where_there_is_no_row(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle
) -> None:
    sink = {"mode": "upsert", "keys": ["id"], "on_bad_row": "fail", "dead_letter_table": None}
    write = make_writer(format="debezium", schema=SCHEMA, sink=sink).write
    write(record_frame(spark, [envelope("c", after=row(1, "Ann"))]), 0)

    with pytest.raises(UntoldValue, match=r"no row with the key \{'id': 2\}.* not tell column 'a name'"):
        write(record_frame(spark, [envelope("u", after=row(1, "Anna")), envelope("u", after=row(2, UNTOLD))]), 1)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT * FROM orders") == [(1, "Ann")]


def test_topics_that_are_tables_change_in_one_snapshot(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle
) -> None:
    """Each has its own columns and keys; the second has a large value, and a record that is broken."""
    schemas = {"shop.public.people": SCHEMA, "shop.public.lines": "number int, line int, text string"}
    sink = {
        "mode": "upsert",
        "keys": ["id"],
        "keys_by_topic": {"shop.public.lines": ["number", "line"]},
        "route": "concat('main.', split(topic, '[.]')[2])",
    }
    source = {"format": "debezium", "schema": None, "topics": list(schemas), "schema_by_topic": schemas}
    write = make_writer(**source, sink=sink).write

    def records(people: list[bytes | None], lines: list[bytes | None]) -> DataFrame:
        of_topics = (record_frame(spark, values, topic) for topic, values in zip(schemas, (people, lines), strict=True))
        return reduce(DataFrame.union, (frame.coalesce(1) for frame in of_topics))

    def line(number: int, line: int, text: str) -> Row:
        return {"number": number, "line": line, "text": text}

    write(records([envelope("c", after=row(1, "Ann"))], [envelope("c", after=line(1, n, "a")) for n in (1, 2)]), 0)
    lines = [envelope("u", after=line(1, 1, UNTOLD)), envelope("d", line(1, 2, "")), None, b"{}"]
    write(records([envelope("u", after=row(1, "Anna"))], lines), 1)
    write(records([], [envelope("c", after=line(2, 1, "b"))]), 2)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT * FROM people") == [(1, "Anna")]
    assert oracle.query("SELECT * FROM lines ORDER BY ALL") == [(1, 1, "a"), (2, 1, "b")]
    batches = oracle.query("SELECT commit_extra_info FROM lake.snapshots() WHERE commit_extra_info LIKE '%batch%'")
    assert len(batches) == 3
    assert oracle.query(f"SELECT topic FROM {DEAD}") == [("shop.public.lines",)]


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no schema": ({"schema": None, "sink": {"mode": "upsert", "keys": ["id"]}}, "input.schema is missing"),
    "columns of topics without a route": (
        {"schema": None, "schema_by_topic": {"orders": SCHEMA}, "sink": {"mode": "upsert", "keys": ["id"]}},
        "input.schema_by_topic needs sink.route",
    ),
    "versions of rows": (
        {"schema": SCHEMA, "sink": {"mode": "upsert", "keys": ["id"], "sequence_by": "id", "stored_as_scd_type": 2}},
        "sink.stored_as_scd_type = 2 needs transform.sql",
    ),
    "its own deletes": (
        {"schema": SCHEMA, "sink": {"mode": "upsert", "keys": ["id"], "apply_as_deletes": "op = 'd'"}},
        "sink.apply_as_deletes needs transform.sql",
    ),
}


@pytest.mark.parametrize(("given", "message"), MISTAKES.values(), ids=MISTAKES)
def test_what_does_not_go_together_is_told(catalog: Catalog, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_job(catalog, format="debezium", **given)
