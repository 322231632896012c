"""Records of a real registry decoded by Spark: each by its writer's schema, evolution followed, reasons for others."""

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from ducklake_core.errors import InvalidInput
from ducklake_streaming.formats.registry.access import RegistryOptions
from ducklake_streaming.formats.registry.decoder import RegistryDecoder
from tests.fixtures.registered import avro, header, record
from tests.fixtures.registry import Registry

pytestmark = pytest.mark.slow

V1 = record(("id", "long"), ("amount", "float"))
V2 = record(("id", "long"), ("amount", "double"), ("note", ["null", "string"]))
V3 = record(("id", "long"), ("note", ["null", "string"]), ("place", record(("city", "string"), name="Place")))
FOREIGN = record(("place", "string"), name="Foreign")


def test_each_record_is_read_by_the_schema_of_its_writer(spark: SparkSession, registry: Registry) -> None:
    topic = registry.new_topic()
    first, second = (registry.register(f"{topic}-value", schema) for schema in (V1, V2))
    decoder = _decoder(registry, topic)
    values = [
        avro(first, V1, {"id": 1, "amount": 0.5}),
        avro(second, V2, {"id": 2, "amount": 0.1, "note": "n"}),
        avro(second, V2, {"id": 3, "amount": 0.2, "note": None}),
    ]

    rows = _decoded(decoder, _records(spark, topic, values))

    assert [row._decoded.asDict() for row in rows] == [
        {"id": 1, "amount": 0.5, "note": None},
        {"id": 2, "amount": 0.1, "note": "n"},
        {"id": 3, "amount": 0.2, "note": None},
    ]
    assert {(row._error, row._stale) for row in rows} == {(None, False)}


def test_new_schema_is_learned_within_its_batch(spark: SparkSession, registry: Registry) -> None:
    topic = registry.new_topic()
    first = registry.register(f"{topic}-value", V1)
    decoder = _decoder(registry, topic)
    second, third = (registry.register(f"{topic}-value", schema) for schema in (V2, V3))
    records = _records(
        spark,
        topic,
        [
            avro(first, V1, {"id": 1, "amount": 0.5}),
            avro(second, V2, {"id": 2, "amount": 0.1, "note": "n"}),
            avro(third, V3, {"id": 3, "note": None, "place": {"city": "Bonn"}}),
        ],
    )

    before = _decoded(decoder, records)
    decoder.refresh()
    after = _decoded(decoder, records)

    assert [(row._decoded and row._decoded.id, row._stale) for row in before] == [
        (1, False),
        (None, True),
        (None, True),
    ]
    assert [row._stale for row in after] == [False, False, False]
    # The newest first; a field that it lacks is there, because a record has it, and in its wider type.
    assert [row._decoded.asDict(recursive=True) for row in after] == [
        {"id": 1, "note": None, "place": None, "amount": 0.5},
        {"id": 2, "note": "n", "place": None, "amount": 0.1},
        {"id": 3, "note": None, "place": {"city": "Bonn"}, "amount": None},
    ]


def test_each_broken_record_has_its_reason(spark: SparkSession, registry: Registry) -> None:
    topic, other = registry.new_topic(), registry.new_topic()
    schema_id = registry.register(f"{topic}-value", V1)
    contrary = registry.register(f"{topic}-value", record(("id", "string")))
    newest = registry.register(f"{topic}-value", V2)
    foreign = registry.register(f"{other}-value", FOREIGN)
    decoder = _decoder(registry, topic)
    right = avro(schema_id, V1, {"id": 1, "amount": 0.5})
    values = {
        "right": right,
        "it is a tombstone": None,
        "fewer than the 5 of a schema registry's header": b"\0\0\0",
        "begins with byte 123, not with 0": b'{"id": 1}',
        "schema id 7654321 is not in the schema registry": header(7654321) + b"x",
        "it ends too early": right[:-1],
        "the Avro value ends 2 bytes before the record does": right + b"ab",
        f"schema id {foreign} cannot be taken: it is of subject '{other}-value', and the input reads": avro(
            foreign, FOREIGN, {"place": "Bonn"}
        ),
        f"schema id {contrary} cannot be taken: field 'id' is string, but bigint elsewhere": avro(
            contrary, record(("id", "string")), {"id": "x"}
        ),
        "also right": avro(newest, V2, {"id": 2, "amount": 0.5, "note": None}),
    }
    records = _records(spark, topic, list(values.values()))

    _decoded(decoder, records)
    decoder.refresh()
    rows = _decoded(decoder, records)

    found = [row._error for row in rows]
    assert [found[0], found[-1]] == [None, None]
    for reason, told in zip(list(values)[1:-1], found[1:-1], strict=True):
        assert reason in told
    assert not any(row._stale for row in rows)


def test_topics_that_only_records_name_are_learned_from_them(spark: SparkSession, registry: Registry) -> None:
    topic, other = registry.new_topic(), registry.new_topic()
    first = registry.register(f"{topic}-value", V1)
    second = registry.register(f"{other}-value", V3)
    decoder = _decoder(registry)
    records = _records(spark, topic, [avro(first, V1, {"id": 1, "amount": 0.5})])
    more = _records(spark, other, [avro(second, V3, {"id": 3, "note": None, "place": {"city": "Bonn"}})])
    poison = _records(spark, "nowhere", [b"x"])

    [before] = _decoded(decoder, poison)
    [row] = _decoded(decoder, records)
    decoder.decode(records.union(more))
    decoder.refresh()
    rows = _decoded(decoder, records.union(more))

    assert (before._error is None, before._decoded) == (False, None)
    assert row._decoded.asDict() == {"id": 1, "amount": 0.5}
    assert {row.topic: row._decoded.id for row in rows} == {topic: 1, other: 3}


def test_subjects_can_be_named_and_must_be_there(registry: Registry) -> None:
    name = registry.new_topic()
    registry.register(name, V1)
    registry.register(f"{name}-contrary", record(("id", "string")))

    assert _decoder(registry, "anything", subject=name).columns.simpleString() == "struct<id:bigint,amount:float>"
    with pytest.raises(
        InvalidInput, match=r"subject 'anything-value' is not in the schema registry .* registry_options"
    ):
        _decoder(registry, "anything")
    with pytest.raises(InvalidInput, match=r"-contrary' .* field 'id' is string, but bigint elsewhere"):
        _decoder(registry, "anything", subject=f"{name}, {name}-contrary")


def test_schema_that_holds_itself_is_refused(registry: Registry) -> None:
    name = registry.new_topic()
    registry.register(f"{name}-value", record(("id", "long"), ("next", ["null", "Order"])))

    with pytest.raises(InvalidInput, match="record 'Order' holds itself"):
        _decoder(registry, name)


def _decoder(registry: Registry, *topics: str, **options: str) -> RegistryDecoder:
    return RegistryDecoder("avro", registry.url, RegistryOptions.parse(options), topics)


def _records(spark: SparkSession, topic: str, values: Sequence[bytes | None]) -> DataFrame:
    rows: list[Any] = [(topic, number, value) for number, value in enumerate(values)]  # Any: Spark's stubs
    return spark.createDataFrame(rows, "topic string, offset bigint, value binary")


def _decoded(decoder: RegistryDecoder, records: DataFrame) -> list[Row]:
    return decoder.decode(records).orderBy("topic", "offset").collect()
