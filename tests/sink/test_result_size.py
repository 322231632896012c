"""A batch that is larger than the driver may take, and than anybody expected, is written by executors."""

import subprocess
import sys
from pathlib import Path

import pytest

from ducklake_core import Lake
from tests.fixtures.spark import SETTINGS

pytestmark = pytest.mark.slow

SCRIPT = """
import logging, os, sys
from pyspark.sql import SparkSession
from ducklake_sinks import DuckLakeSink

os.environ["PYSPARK_PYTHON"] = sys.executable
logging.basicConfig(level=logging.INFO, format="%(message)s")
builder = SparkSession.builder.master("local[2]").config("spark.driver.maxResultSize", "1m")
for setting in {settings!r}.items():
    builder = builder.config(*setting)
spark = builder.getOrCreate()
sink = DuckLakeSink("sqlite:///lake.sqlite", "events", data_path="data/", stream="s", flush=None)
for batch_id, batch in enumerate({batches!r}):
    sink(spark.range(0, batch[0], 1, batch[2]).selectExpr("id", batch[1] + " AS text"), batch_id)
"""


def write_batches(directory: Path, *batches: tuple[int, str, int]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT.format(settings=SETTINGS, batches=batches)]
    return subprocess.run(command, cwd=directory, check=False, capture_output=True, text=True)


def test_first_batch_of_few_rows_beyond_the_result_size_is_written_by_executors(tmp_path: Path) -> None:
    run = write_batches(tmp_path, (4, "repeat(uuid(), 300000)", 2))

    assert run.returncode == 0, run.stderr
    assert "batch=0 rows=4 inlined=0 files=2" in run.stderr


def test_batch_beyond_the_result_size_is_written_by_executors(tmp_path: Path) -> None:
    run = write_batches(tmp_path, (10, "uuid()", 2), (200_000, "uuid()", 2))

    assert run.returncode == 0, run.stderr
    assert "batch=1 rows=200000 inlined=0 files=2" in run.stderr
    with Lake.open(f"sqlite:///{tmp_path}/lake.sqlite", data_path=f"{tmp_path}/data/", override_data_path=True) as lake:
        assert lake.table("events").count() == 200_010


def test_many_tasks_of_few_rows_beyond_the_result_size_write_files(tmp_path: Path) -> None:
    run = write_batches(tmp_path, (30_000, "array(uuid())", 10))  # of lists, Spark's own writer makes no files

    assert run.returncode == 0, run.stderr
    assert "batch=0 rows=30000 inlined=0 files=10" in run.stderr
