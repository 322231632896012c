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
sink(spark.range(10).selectExpr("id", "uuid() AS text"), 0)
sink(spark.range(0, 200000, 1, 2).selectExpr("id", "uuid() AS text"), 1)
"""


def test_batch_beyond_the_result_size_is_written_by_executors(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT.format(settings=SETTINGS)]

    run = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)

    assert run.returncode == 0, run.stderr
    assert "batch=1 rows=200000 inlined=0 files=2" in run.stderr
    with Lake.open(f"sqlite:///{tmp_path}/lake.sqlite", data_path=f"{tmp_path}/data/", override_data_path=True) as lake:
        assert lake.table("events").count() == 200_010
