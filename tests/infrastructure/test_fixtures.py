"""The fixtures themselves: if these lie, every other test may."""

import datetime as dt
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ducklake_core.catalog.postgres.wire import Command, Wire
from tests.fixtures.catalogs import Catalog, MakeCatalog
from tests.fixtures.kafka import Kafka, Record
from tests.fixtures.oracle import Oracle, OracleError
from tests.fixtures.postgres import PostgresDatabase, PostgresServer
from tests.fixtures.proxy import Kinds, run_proxy
from tests.fixtures.quick_spark import ARCHIVE
from tests.fixtures.waiting import PATIENCE_SECONDS


def test_postgres_server_does_not_run_as_root(postgres_server: PostgresServer) -> None:
    real_user, effective_user, *_ = _status(_process_id(postgres_server.directory), "Uid").split()

    assert "0" not in {real_user, effective_user}


def test_each_test_gets_an_empty_database(postgres_database: PostgresDatabase) -> None:
    with psycopg.connect(postgres_database.conninfo) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()

    assert tables == (0,)


def test_postgres_server_ends_when_its_test_process_is_killed() -> None:
    script = (
        "import signal; from tests.fixtures.postgres import run_postgres\n"
        "with run_postgres() as server: print(server.directory, flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        directory = Path(process.stdout.readline().strip())
        supervisor = os.pidfd_open(int(_status(_process_id(directory), "PPid")))

        process.kill()

    ended, _, _ = select.select([supervisor], [], [], PATIENCE_SECONDS)
    os.close(supervisor)
    assert ended
    assert not directory.exists()


@pytest.mark.skipif(not ARCHIVE.exists(), reason="`make test` makes the archive of Spark's classes")
def test_spark_loads_its_classes_from_the_archive(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm  # PySpark has no public way to it
    assert jvm is not None
    process_id = jvm.java.lang.ProcessHandle.current().pid()

    assert str(ARCHIVE) in Path(f"/proc/{process_id}/maps").read_text()


@pytest.mark.slow
def test_broker_does_not_run_as_root(kafka: Kafka) -> None:
    real_user, effective_user, *_ = _status(str(kafka.process_id), "Uid").split()

    assert "0" not in {real_user, effective_user}


@pytest.mark.slow
def test_broker_that_is_killed_or_restarted_keeps_what_it_acknowledged(kafka: Kafka) -> None:
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, [Record(0, b"a"), Record(1, None, b"key"), Record(0, b"b")])

    kafka.kill()
    kafka.start()
    kafka.produce(topic, [Record(1, b"c")])
    kafka.restart()

    assert kafka.ends(topic) == {0: 2, 1: 2}


@pytest.mark.slow
@pytest.mark.usefixtures("kafka")  # which skips where there is none
def test_broker_ends_when_its_test_process_is_killed() -> None:
    script = (
        "import signal; from tests.fixtures.kafka import run_kafka\n"
        "with run_kafka() as kafka: print(kafka.process_id, kafka.directory, flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        broker, directory = process.stdout.readline().split()
        supervisor = os.pidfd_open(int(_status(broker, "PPid")))

        process.kill()

    ended, _, _ = select.select([supervisor], [], [], PATIENCE_SECONDS)
    os.close(supervisor)
    assert ended
    assert not Path(directory).exists()


def test_oracle_returns_python_values(oracle: Oracle) -> None:
    rows = oracle.query("SELECT 1, 'x', 1.50::DECIMAL(9,2), NULL, TIMESTAMPTZ '2026-01-02 03:04:05+00', [1, 2]")

    assert rows == [(1, "x", Decimal("1.50"), None, dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), [1, 2])]


def test_oracle_returns_arrow(oracle: Oracle) -> None:
    table = oracle.arrow("SELECT 1::INTEGER AS i, {'a': 'x'} AS s")

    assert table == pa.table({"i": pa.array([1], pa.int32()), "s": pa.array([{"a": "x"}])})


def test_oracle_raises_what_duckdb_says_and_goes_on(oracle: Oracle) -> None:
    with pytest.raises(OracleError, match="Table with name nowhere does not exist"):
        oracle.query("FROM nowhere")

    assert oracle.query("SELECT 1") == [(1,)]


def test_killed_oracle_says_so(oracle: Oracle) -> None:
    oracle.kill()

    with pytest.raises(OracleError, match="ended"):
        oracle.query("SELECT 1")


def test_two_oracles_share_a_lake(catalog: Catalog) -> None:
    with Oracle() as first, Oracle() as second:
        first.attach(catalog.attach, data_path=catalog.data_path)
        second.attach(catalog.attach)

        first.execute("CREATE TABLE t (i INTEGER)")
        second.execute("INSERT INTO t VALUES (1)")

        assert first.query("FROM t") == [(1,)]


def test_attach_takes_options_of_duckdb(catalog: Catalog, oracle: Oracle) -> None:
    oracle.attach(catalog.attach, data_path=catalog.data_path, data_inlining_row_limit=0)
    oracle.execute("CREATE TABLE t AS SELECT 1 AS i")

    assert len(catalog.dump()["ducklake_data_file"]) == 1


def test_dump_holds_every_row_and_its_column_names(catalog: Catalog, oracle: Oracle) -> None:
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    oracle.execute("CREATE TABLE t AS SELECT 7 AS i")

    dump, columns = catalog.dump(), catalog.columns()

    assert dump.keys() == columns.keys()
    assert [row[-1] for row in dump["ducklake_inlined_data_1_1"]] == [7]
    assert columns["ducklake_snapshot"] == (
        "snapshot_id",
        "snapshot_time",
        "schema_version",
        "next_catalog_id",
        "next_file_id",
    )


def test_each_made_catalog_is_a_different_place(make_catalog: MakeCatalog) -> None:
    first, second = make_catalog(), make_catalog()

    assert first.url != second.url
    assert first.data_path != second.data_path


def _process_id(server_directory: Path) -> str:
    return (server_directory / "data" / "postmaster.pid").read_text().split()[0]


def _status(process_id: str, field: str) -> str:
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next(line.removeprefix(f"{field}:").strip() for line in lines if line.startswith(f"{field}:"))


def test_proxy_counts_a_burst_in_two_pieces_as_one_round_trip(postgres_database: PostgresDatabase) -> None:
    """The server answers an error before it has all; a client that does not wait for that pays for one round trip."""
    with run_proxy(postgres_database) as proxy, psycopg.connect(proxy.database.conninfo) as connection:

        def send_more_when_the_error_is_there() -> Sequence[Command]:
            assert select.select([connection.pgconn.socket], [], [], PATIENCE_SECONDS)[0]
            return [("SELECT 2", [{}])]

        wire = Wire(connection, lock_timeout_seconds=5)
        proxy.forget_counts()
        with pytest.raises(psycopg.errors.DivisionByZero):
            wire.exchange([("SELECT 1 / 0", [{}])], send_more_when_the_error_is_there)

        assert proxy.round_trips == 1


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_messages_of_the_server_are_found_whatever_pieces_they_come_in(size: int) -> None:
    messages = [(b"T", b"columns"), (b"D", b"Z" * 9), (b"C", b""), (b"Z", b"I")]
    stream = b"".join(kind + (4 + len(body)).to_bytes(4, "big") + body for kind, body in messages)
    kinds = Kinds()

    found = [kind for at in range(0, len(stream), size) for kind in kinds.of(stream[at : at + size])]

    assert found == [b"T", b"D", b"C", b"Z"]
