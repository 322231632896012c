"""A batch of records becomes rows and dead letters in one snapshot; nothing is lost, and nothing is null in silence."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput, SchemaMismatch
from ducklake_streaming.formats.decoder import DECODED, ERROR, STALE
from ducklake_streaming.jobs import record_counts
from ducklake_streaming.jobs.batch_writer import BatchWriter
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.pipelines import DEAD, NAME, MakeWriter
from tests.fixtures.records import record_frame

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)]

BROKEN: list[bytes | None] = [b'{"id": "x"}', None, b"\xff"]
SIZES = pytest.mark.parametrize("inline_rows", [10_000, 5], ids=["inlined", "files"])


def good(count: int) -> list[bytes | None]:
    return [b'{"id": %d, "n": %d}' % (n, n) for n in range(count)]


def snapshots(catalog: Catalog) -> int:
    return len(catalog.query("SELECT * FROM ducklake_snapshot"))


@pytest.mark.parametrize("few", [1_000, 2], ids=["few", "many"])
@SIZES
def test_bad_records_are_letters_in_the_snapshot_of_the_good_rows(
    spark: SparkSession,
    catalog: Catalog,
    make_writer: MakeWriter,
    oracle: Oracle,
    inline_rows: int,
    few: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_counts, "FEW_ERRORS", few)
    write = make_writer(sink={"inline_rows": inline_rows}).write
    values = [*good(40), *BROKEN]

    for batch_id in (0, 1):
        write(record_frame(spark, values), batch_id)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), count(id), sum(id) FROM orders") == [(80, 80, 1560)]
    letters = oracle.query(f"SELECT * EXCLUDE (quarantined_at) FROM {DEAD} ORDER BY ALL")
    assert len(letters) == 6
    facts = {letter[5:12] for letter in letters if letter[1] == 1}
    header = json.dumps([{"key": "h", "value": "AP8="}], separators=(",", ":"))
    assert facts == {
        ("orders", n % 2, n // 2, datetime.fromtimestamp(1_767_225_600 + n, UTC), b"k%d" % n, values[n], header)
        for n in (40, 41, 42)
    }
    assert {letter[3] for letter in letters} == {
        "field 'id' is no bigint, but \"x\"",
        "a tombstone: the record has no value",
        "the value is no UTF-8",
    }
    assert snapshots(catalog) == 3
    check_lake(catalog, orphans=0)


@SIZES
def test_row_that_its_table_cannot_hold_keeps_its_record(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle, inline_rows: int
) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("main.orders", {"id": "int64", "n": "int32"})
    made = make_writer(
        sink={"inline_rows": inline_rows}, sql="SELECT id, n * 2 AS n FROM input -- twice\nWHERE id < 99"
    )
    values = [*good(20), b'{"id": 7, "n": 5000000000}']

    for batch_id in (0, 1):
        made.write(record_frame(spark, values), batch_id)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), sum(n) FROM orders") == [(40, 760)]
    letters = oracle.query(f'SELECT table_name, row->>\'n\', topic, "partition", "offset", value FROM {DEAD}')
    assert letters == [("main.orders", "10000000000", "orders", 0, 10, values[20])] * 2
    check_lake(catalog, orphans=0)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        pytest.param(b'{"id": 1.5}', "the value is no JSON object|field 'id'", id="record"),
        pytest.param(b'{"id": 1, "n": 5000000000}', "does not fit", id="row"),
    ],
)
@SIZES
def test_batch_that_must_not_have_bad_records_fails_and_names_the_first(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, value: bytes, told: str, inline_rows: int
) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("main.orders", {"id": "int64", "n": "int32"})
    write = make_writer(sink={"on_bad_row": "fail", "inline_rows": inline_rows}).write

    with pytest.raises(SchemaMismatch, match=f"topic 'orders', partition 1, offset 10: .*({told})"):
        write(record_frame(spark, [*good(21), value]), 0)

    with Lake.open(catalog.url) as lake:
        assert lake.table("main.orders").count() == 0
    check_lake(catalog, orphans=0)


class Watched:
    """Frames of records that count how often one is read, and how many jobs of Spark that takes."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._seen = spark.sparkContext.accumulator(0)
        self._groups = 0

    def frame(self, values: Sequence[bytes | None]) -> DataFrame:
        frame, seen = record_frame(self._spark, values), self._seen

        def watch(row: Row) -> Row:
            seen.add(1)
            return row

        return self._spark.createDataFrame(frame.rdd.map(watch), frame.schema)

    def count(self, act: Callable[[], None]) -> tuple[int, int]:
        """Return how many records were read, and in how many jobs."""
        context, before = self._spark.sparkContext, self._seen.value
        self._groups += 1
        group = f"watched {id(self)} {self._groups}"
        context.setJobGroup(group, group)
        act()
        return self._seen.value - before, len(context.statusTracker().getJobIdsForGroup(group))


@SIZES
def test_batch_without_bad_records_is_read_once(
    spark: SparkSession, make_writer: MakeWriter, monkeypatch: pytest.MonkeyPatch, inline_rows: int
) -> None:
    def never(_: DataFrame) -> None:
        raise AssertionError("counted by a job of its own")

    monkeypatch.setattr(record_counts, "count_records", never)
    write, watched = make_writer(sink={"inline_rows": inline_rows}).write, Watched(spark)
    frame = watched.frame(good(50))

    assert [watched.count(partial(write, frame, batch_id)) for batch_id in range(2)] == [(50, 1)] * 2


@SIZES
def test_batches_with_bad_records_are_read_once_after_the_first(
    spark: SparkSession, make_writer: MakeWriter, inline_rows: int
) -> None:
    write, watched = make_writer(sink={"inline_rows": inline_rows}).write, Watched(spark)
    values = [*good(47), *BROKEN]
    frame = watched.frame(values)

    found = [watched.count(partial(write, frame, batch_id)) for batch_id in range(3)]

    assert found == [(100, 2), (50, 2), (50, 2)]
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()  # nothing is kept


def test_table_of_letters_of_before_gets_the_columns_of_records(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle
) -> None:
    texts = dict.fromkeys(("stream", "table_name", "reason", "row"), "varchar")
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table(DEAD, {**texts, "batch_id": "int64", "quarantined_at": "timestamptz"})
        lake.append(DEAD, {**{name: ["old"] for name in texts}, "batch_id": [1], "quarantined_at": [datetime.now(UTC)]})

    make_writer().write(record_frame(spark, [*good(2), *BROKEN]), 0)

    oracle.attach(catalog.attach)
    assert oracle.query(f"SELECT count(*), count(topic), count(replayed_at) FROM {DEAD}") == [(4, 3, 0)]


# ---- transforms and routes


def test_transform_sees_fields_and_metadata(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle
) -> None:
    sql = (
        "SELECT id, topic, _record.topic AS real, partition, offset, timestamp, key, headers[0].value AS h "
        "FROM input WHERE id > 0"
    )
    write = make_writer(sql=sql, schema="id bigint, topic string").write

    write(record_frame(spark, [b'{"id": %d, "topic": "mine"}' % n for n in range(3)]), 0)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT * FROM orders ORDER BY id") == [
        (n, "mine", "orders", n % 2, n // 2, datetime.fromtimestamp(1_767_225_600 + n, UTC), b"k%d" % n, b"\0\xff")
        for n in (1, 2)
    ]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        pytest.param("SELECT count(*) AS c FROM input", [(3,)], id="aggregate"),
        pytest.param("SELECT id FROM input ORDER BY id LIMIT 1", [(0,)], id="limit"),
        pytest.param("SELECT explode(sequence(0, id)) AS c FROM input", [(0,)] * 3 + [(1,)] * 2 + [(2,)], id="explode"),
        pytest.param("SELECT id FROM input WHERE 1 = 0", [], id="nothing"),
    ],
)  # fmt: skip
def test_bad_records_are_kept_whatever_the_transform_reads(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle, sql: str, expected: list[Any]
) -> None:
    write = make_writer(sql=sql).write

    write(record_frame(spark, [*BROKEN, *good(3)]), 0)

    oracle.attach(catalog.attach)
    tables = {name for (name,) in oracle.query("SELECT table_name FROM duckdb_tables()")}
    assert (sorted(oracle.query("SELECT * FROM orders")) if "orders" in tables else []) == expected
    assert oracle.query(f"SELECT count(value), count(*) FROM {DEAD}") == [(2, 3)]


@pytest.mark.parametrize("sql", [None, "SELECT id FROM input"], ids=["plain", "sql"])
def test_route_may_name_what_is_not_stored(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle, sql: str | None
) -> None:
    write = make_writer(sql=sql, sink={"route": "concat('main.', topic, id % 2)"}).write

    write(record_frame(spark, [*good(4), b'{"n": 1}', *BROKEN]), 0)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT list(id ORDER BY id) FROM orders0") == [([0, 2],)]
    assert oracle.query("SELECT list(id ORDER BY id) FROM orders1") == [([1, 3],)]
    assert oracle.query(f"SELECT count(*), count(topic) FROM {DEAD}") == [(4, 4)]
    assert oracle.query(f"SELECT value FROM {DEAD} WHERE reason LIKE '%route is null%'") == [(b'{"n": 1}',)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param({"sql": "SELECT idd FROM input"}, "transform.sql cannot be run: .*`idd`", id="column"),
        pytest.param({"sql": "SELECT nope(id) FROM input"}, "transform.sql cannot be run: .*`nope`", id="function"),
        pytest.param({"sink": {"route": "topik"}}, "sink.route cannot be run: .*`topik`", id="route"),
        pytest.param(
            {"sql": "SELECT count(*) AS c FROM input", "sink": {"route": "topic"}}, "sink.route", id="route of many"
        ),
        pytest.param({"schema": "_record string"}, "called '_record'", id="reserved"),
    ],
)
def test_mistake_in_sql_is_told_clearly(
    spark: SparkSession, make_writer: MakeWriter, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        make_writer(**options).write(record_frame(spark, good(1)), 0)


def test_tombstones_are_skipped_where_told(spark: SparkSession, catalog: Catalog, make_writer: MakeWriter) -> None:
    make_writer(tombstones="skip").write(record_frame(spark, [None, *good(1)]), 0)

    with Lake.open(catalog.url) as lake:
        assert [table.name for table in lake.tables()] == ["main.orders"]


# ---- decoders that learn


class LearningDecoder:
    """Knows one more field after each refresh; records of more fields are stale until then."""

    def __init__(self) -> None:
        self.known = 1

    def decode(self, records: DataFrame) -> DataFrame:
        fields = ", ".join(f"'f{n}', {n}" for n in range(self.known))
        stale = f"length(value) > {self.known}"
        return records.selectExpr(
            "*", f"named_struct({fields}) AS {DECODED}", f"CAST(NULL AS STRING) AS {ERROR}", f"{stale} AS {STALE}"
        )

    def refresh(self) -> None:
        self.known += 1


def test_batch_with_newer_schemas_is_read_again_when_they_are_known(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter
) -> None:
    made = make_writer(sink={"merge_schema": True})
    write = BatchWriter(NAME, made.job.pipeline[NAME], made.sink, LearningDecoder())

    write(record_frame(spark, [b"1"]), 0)
    write(record_frame(spark, [b"1", b"333"]), 1)

    with Lake.open(catalog.url) as lake:
        rows = lake.table("main.orders").read().to_pylist()
    assert rows == [{"f0": 0, "f1": None, "f2": None}, *[{"f0": 0, "f1": 1, "f2": 2}] * 2]
    with pytest.raises(InvalidInput, match="did not learn"):
        write(record_frame(spark, [b"1" * 99]), 2)
