"""Envelopes of Debezium as Avro: a replica has the database's types, in each of Debezium's modes, and new columns."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ducklake_core.errors import InvalidInput
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.pipelines import DEAD, MakeWriter
from tests.fixtures.records import record_frame
from tests.fixtures.registered import avro, record
from tests.fixtures.registry import Registry

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)]

Json = Any  # Any: JSON
UNTOLD = "__debezium_unavailable_value"
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
LOCAL = NOON.replace(tzinfo=None)
SECONDS = int(NOON.timestamp())


def named(kind: str, name: str, **more: str) -> Json:
    return ["null", {"type": kind, "connect.version": 1, "connect.name": name, **more}]


PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2, "connect.version": 1}
ANY_SCALE = record(("scale", "int"), ("value", "bytes"), name="io.debezium.data.VariableScaleDecimal")
BY_CONNECT = named("long", "org.apache.kafka.connect.data.Timestamp", logicalType="timestamp-millis")
# (type, value as Debezium sends it, value in the lake)
COLUMNS: dict[str, tuple[Json, object, object]] = {
    "precise": (["null", PRICE], Decimal("-12.34"), Decimal("-12.34")),
    "any_scale": (["null", ANY_SCALE], {"scale": 3, "value": b"\xfb\x2e"}, "-1.234"),
    "as_text": (["null", "string"], "1.50", "1.50"),
    "as_double": (["null", "double"], 1.5, 1.5),
    "day": (named("int", "io.debezium.time.Date"), 19_723, date(2024, 1, 1)),
    "millis": (named("long", "io.debezium.time.Timestamp"), SECONDS * 1000, LOCAL),
    "micros": (
        named("long", "io.debezium.time.MicroTimestamp"),
        SECONDS * 1_000_000 + 1,
        LOCAL.replace(microsecond=1),
    ),
    "of_day": (named("long", "io.debezium.time.MicroTime"), 1_000_001, time(0, 0, 1, 1)),
    "connect": (BY_CONNECT, SECONDS * 1000, LOCAL),
    "zoned": (named("string", "io.debezium.time.ZonedTimestamp"), "2024-01-01T13:00:00.0+01:00", NOON),
    "iso": (named("string", "io.debezium.time.IsoTimestamp"), "2024-01-01T12:00:00Z", LOCAL),
    "iso_day": (named("string", "io.debezium.time.IsoDate"), "2024-01-01Z", date(2024, 1, 1)),
    "iso_time": (named("string", "io.debezium.time.IsoTime"), "20:05:16.45Z", time(20, 5, 16, 450_000)),
    "doc": (named("string", "io.debezium.data.Json"), "{}", "{}"),
    "data": (["null", "bytes"], b"raw", b"raw"),
}


def envelope(*more: tuple[str, Json]) -> Json:
    row = record(("id", "long"), *((name, kind) for name, (kind, _, _) in COLUMNS.items()), *more, name="server.Value")
    source = record(("lsn", ["null", "long"]), name="Source")
    return record(
        *(("before", ["null", row]), ("after", ["null", "server.Value"]), ("source", source), ("op", "string")),
        *(("ts_ms", ["null", "long"]), ("transaction", ["null", "string"])),
        name="server.Envelope",
    )


def event(op: str, row: Json) -> Json:
    image = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return {**image, "source": {"lsn": 1}, "op": op, "ts_ms": 5, "transaction": None}


def source_of(registry: Registry, topic: str) -> Json:
    return {"format": "debezium", "schema": None, "registry": registry.url, "topics": [topic]}


@pytest.fixture
def times_of_day(spark: SparkSession) -> Iterator[None]:
    """Have Spark take them, as a job's session does."""
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    spark.conf.unset("spark.sql.timeType.enabled")


@pytest.mark.usefixtures("times_of_day")
def test_replica_has_the_values_of_every_mode_and_follows_new_columns(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle, registry: Registry
) -> None:
    topic = registry.new_topic()
    old, new = envelope(), envelope(("note", ["null", "string"]))
    first = registry.register(f"{topic}-value", old)
    sink = {"mode": "upsert", "keys": ["id"], "merge_schema": True}
    write = make_writer(**source_of(registry, topic), sink=sink).write
    sent = {name: value for name, (_, value, _) in COLUMNS.items()}
    nothing = dict.fromkeys(COLUMNS)

    rows = {"id": 1, **sent}, {"id": 2, **nothing}, {"id": 3, **sent}, {"id": 4, **nothing, "zoned": "infinity"}
    write(record_frame(spark, [*(avro(first, old, event("r", row)) for row in rows), None], topic).coalesce(1), 0)
    second = registry.register(f"{topic}-value", new)
    untold = {"id": 3, **sent, "doc": UNTOLD, "data": UNTOLD.encode(), "as_double": 2.5, "note": "n"}
    changes = [event("u", untold), event("d", {"id": 2, **nothing, "note": None})]
    write(record_frame(spark, [avro(second, new, one) for one in changes], topic).coalesce(1), 1)

    oracle.attach(catalog.attach)
    wanted = {name: value for name, (_, _, value) in COLUMNS.items()}
    found = oracle.query("SELECT * FROM orders ORDER BY id")
    assert found == [(1, *wanted.values(), None), (3, *{**wanted, "as_double": 2.5}.values(), "n")]
    [(reason,)] = oracle.query(f"SELECT reason FROM {DEAD}")
    assert "value 'infinity' cannot be taken" in reason


def test_schema_that_is_no_envelope_is_told(make_writer: MakeWriter, registry: Registry, spark: SparkSession) -> None:
    topic, schema = registry.new_topic(), record(("id", "long"))
    known = registry.register(f"{topic}-value", schema)
    write = make_writer(**source_of(registry, topic), sink={"mode": "upsert", "keys": ["id"]}).write

    with pytest.raises(InvalidInput, match="no envelopes of Debezium: they lack 'before'"):
        write(record_frame(spark, [avro(known, schema, {"id": 1})], topic), 0)
