"""Inputs of pipelines as Spark reads them: files, rate and another table."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from ducklake_core import Lake
from ducklake_streaming.jobs.inputs import read_input, trigger_arguments
from ducklake_streaming.jobs.job_file import load_job
from ducklake_streaming.jobs.spark_ddl import parse_ddl
from ducklake_streaming.jobs.values import parse_trigger

pytestmark = pytest.mark.slow

SCHEMAS = [
    "id bigint, kind string, amount double, ts timestamp",
    "a struct<x:int,y:array<string>>, m map<string,decimal(10,2)> NOT NULL COMMENT 'money'",
    "a STRUCT<x INT NOT NULL COMMENT 'inner', `odd name`: date>, b ARRAY<MAP<STRING, STRUCT<c: BINARY>>>",
    "a timestamp_ntz, b timestamp_ltz, c varchar(10), d char(3), e character(4)",
    "a tinyint, b byte, c smallint, d short, e int, f integer, g long, h float, i real, j boolean",
    "a decimal, b dec(5), c numeric(12, 3), d variant",
    "`a``b` int, date date, timestamp timestamp, map map<int,int>",
    'a int COMMENT "say \\"hi\\"", b struct<>',
]
NO_SCHEMAS = [
    *(
        "",
        "id",
        "id bigint,",
        ", id bigint",
        "id bigint kind string",
        "id bigin",
        "id text",
        "a array<int",
        "a map<int>",
    ),
    *("a struct<x:int", "a decimal(40)", "a decimal(5,6)", "a varchar", "a int NOT", "a int COMMENT x", "a int; b int"),
    *("a int b", "`a int", "a array<>", "a decimal()"),
]


def _stream(spark: SparkSession, folder: Path, source: str) -> DataFrame:
    (folder / "job.toml").write_text(
        f'[catalog]\nurl = "sqlite:///lake.sqlite"\n[pipeline.p]\ncheckpoint = "checkpoint"\ninput = {{ {source} }}\n'
        'sink = { table = "main.copies" }\n'
    )
    job = load_job(folder / "job.toml").job
    return read_input(spark, job.pipeline["p"], job)


def _rows(stream: DataFrame, folder: Path, *, batches: int | None = None) -> list[Row]:
    """Run a stream through all that is there, and return its rows."""
    found: list[Sequence[Row]] = []
    writer = stream.writeStream.foreachBatch(lambda batch, _: found.append(batch.collect()))
    query = writer.trigger(**trigger_arguments(parse_trigger("available now"))).option(
        "checkpointLocation", str(folder / "checkpoint")
    )
    query.start().awaitTermination()
    assert batches is None or len(found) == batches
    return [row for batch in found for row in batch]


def test_files_are_read_with_their_schema_and_in_batches(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.csv").write_text(f"id;name\n{number};n{number}\n")
    source = 'kind = "files", path = "in", format = "csv", schema = "id bigint, name string", '
    source += 'max_files_per_trigger = 1, options = { header = true, sep = ";" }'

    rows = _rows(_stream(spark, tmp_path, source), tmp_path, batches=3)

    assert sorted(map(tuple, rows)) == [(0, "n0"), (1, "n1"), (2, "n2")]


def test_text_needs_no_schema(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("x\ny\n")

    rows = _rows(_stream(spark, tmp_path, 'kind = "files", path = "in", format = "text"'), tmp_path)

    assert sorted(row.value for row in rows) == ["x", "y"]


def test_rate_has_a_timestamp_and_a_number(spark: SparkSession, tmp_path: Path) -> None:
    stream = _stream(spark, tmp_path, 'kind = "rate", rows_per_second = 7')

    assert stream.isStreaming
    assert stream.schema.simpleString() == "struct<timestamp:timestamp,value:bigint>"


def test_changes_of_a_table_of_the_job_s_own_lake_are_read(spark: SparkSession, tmp_path: Path) -> None:
    with Lake.create(f"sqlite:///{tmp_path}/lake.sqlite", str(tmp_path / "data")) as lake, lake.transaction() as tx:
        tx.create_table("main.bronze", pa.schema([("id", pa.int64()), ("my, name", pa.string())]))
        tx.append("main.bronze", pa.table({"id": [1, 2], "my, name": ["a", "b"]}))
    source = 'kind = "ducklake", table = "main.bronze", read_change_feed = true, starting_version = "earliest", '
    source += 'columns = ["id", "my, name"], change_types = ["insert"], max_rows_per_trigger = 100'

    rows = _rows(_stream(spark, tmp_path, source), tmp_path)

    assert sorted((row.id, row["my, name"], row._change_type) for row in rows) == [
        (1, "a", "insert"),
        (2, "b", "insert"),
    ]


@pytest.mark.parametrize("ddl", SCHEMAS)
def test_schema_is_what_spark_makes_of_it(spark: SparkSession, ddl: str) -> None:
    assert spark is not None  # PySpark asks the JVM
    assert parse_ddl(ddl) == StructType.fromDDL(ddl)


@pytest.mark.parametrize("ddl", NO_SCHEMAS)
def test_what_is_no_schema_is_none_for_spark(spark: SparkSession, ddl: str) -> None:
    assert spark is not None
    with pytest.raises(ValueError, match=r".+"):
        parse_ddl(ddl)
    if ddl:  # of the empty text Spark makes an empty schema, which no payload has
        with pytest.raises(PySparkException):
            StructType.fromDDL(ddl)
