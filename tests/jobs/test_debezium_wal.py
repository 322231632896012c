"""What PostgreSQL writes into its log becomes a replica of its tables: events of a real log, in Debezium's form."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.pipelines import DEAD, MakeWriter
from tests.fixtures.postgres import FAST, run_postgres
from tests.fixtures.records import record_frame
from tests.fixtures.wal import WriteAheadLog

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)]

LARGE = "(SELECT string_agg(md5(n::text), '') FROM generate_series({0}, {0} + 200) n)"  # kept apart from its row
TEXT, BYTES = LARGE.format("id"), f"decode({LARGE.format('id + 7')}, 'hex')"
TABLE = "CREATE TABLE orders (id bigint PRIMARY KEY, v int, price numeric(12, 2), doc text, data bytea, ok boolean)"
SCHEMA = "id bigint, v int, price decimal(12,2), doc string, data binary, ok boolean"


@pytest.fixture(scope="module")
def source() -> Iterator[tuple[psycopg.Connection[Any], WriteAheadLog]]:
    """Give a database of which the log tells all that happens to rows."""
    with run_postgres({**FAST, "wal_level": "logical"}) as server:  # the log is read as far as it is written
        conninfo = server.create_database().conninfo
        log = WriteAheadLog(conninfo)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            yield connection, log
        log.close()


# Each is a batch. An update that leaves doc or data alone does not tell them.
STEPS = (
    f"INSERT INTO orders SELECT id, 1, id / 4.0, {TEXT}, {BYTES}, id % 2 = 0 FROM generate_series(1, 20) id",
    f"""
    UPDATE orders SET v = 2, price = -price WHERE id <= 5;
    UPDATE orders SET doc = 'small' WHERE id = 2;
    UPDATE orders SET v = 3 WHERE id = 2;
    UPDATE orders SET data = NULL WHERE id = 3;
    UPDATE orders SET doc = {TEXT} || 'x', ok = NULL WHERE id = 4;
    BEGIN; UPDATE orders SET v = 99; ROLLBACK
    """,
    """
    DELETE FROM orders WHERE id BETWEEN 6 AND 8;
    INSERT INTO orders VALUES (7, 0, NULL, '', '', true), (30, 1, 9.99, 'ä', '\\x00ff', false);
    UPDATE orders SET id = 31 WHERE id = 30;
    ALTER TABLE orders REPLICA IDENTITY FULL;
    UPDATE orders SET id = id + 100, v = v + 1 WHERE id > 18;
    ALTER TABLE orders REPLICA IDENTITY DEFAULT;
    UPDATE orders SET v = -1 WHERE id > 100
    """,
    "ALTER TABLE orders ADD COLUMN note text; UPDATE orders SET note = 'new' WHERE id = 9",
    "TRUNCATE orders; INSERT INTO orders SELECT id, 5, 0, 'after', NULL, NULL, NULL FROM generate_series(1, 3) id",
)


def test_replica_is_what_the_table_is(
    spark: SparkSession,
    catalog: Catalog,
    make_writer: MakeWriter,
    oracle: Oracle,
    source: tuple[psycopg.Connection[Any], WriteAheadLog],
) -> None:
    database, log = source
    database.execute(TABLE)
    sink, columns = {"mode": "upsert", "keys": ["id"], "merge_schema": True}, SCHEMA

    for batch_id, step in enumerate(STEPS):
        if "ADD COLUMN" in step:
            columns = f"{SCHEMA}, note string"
        write = make_writer(format="debezium", schema=columns, truncates="apply", sink=sink).write
        database.execute(step)
        records = [record.value for record in log.records()]
        write(record_frame(spark, records).coalesce(1), batch_id)

        if batch_id == 0:
            oracle.attach(catalog.attach)
            assert records[0] is not None and len(records[0]) > 10_000  # noqa: PT018 # one condition: it is large
        wanted = database.execute("SELECT * FROM orders ORDER BY id").fetchall()
        assert oracle.query("SELECT * FROM orders ORDER BY id") == wanted, step

    assert oracle.query("SELECT table_name FROM duckdb_tables() WHERE table_name = 'dead'") == [], DEAD
