"""Spark and S3: by our own client without any jar, and by Hadoop's where checkpoints or scans need it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ducklake_sinks.native_files import PROTOCOL_SETTING, S3_PROTOCOL
from tests.fixtures.oracle import Oracle
from tests.fixtures.s3 import KEY, SECRET, S3Bucket
from tests.fixtures.s3_proxy import Trouble

pytestmark = pytest.mark.slow
ROWS = 20_003
ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("s3_driver.py")


def run(s3: S3Bucket, folder: Path, checkpoint: str, *jars: str) -> tuple[dict[str, Any], str]:
    """Run the program; return what it found, and its log."""
    command = [sys.executable, str(DRIVER), f"sqlite:///{folder}/lake.sqlite", s3.url, checkpoint, *jars]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
    )
    assert ended.returncode == 0, ended.stderr[-5000:]
    return json.loads(ended.stdout), ended.stderr


def check(found: dict[str, Any], log: str) -> None:
    assert (found["read"], found["changes"], found["copy"]) == (ROWS, ROWS, ROWS)
    for secret in (KEY, SECRET):
        assert secret not in log
        assert secret not in str(found["conf"])


def test_spark_writes_and_reads_a_lake_on_s3_without_a_jar(s3: S3Bucket, tmp_path: Path, oracle: Oracle) -> None:
    is_upload = lambda request: request.act == "PutObject" and "/main/people/" in request.key  # noqa: E731 # used once
    s3.proxy.trouble(Trouble.CUT, is_upload, times=4)

    found, log = run(s3, tmp_path, f"{tmp_path}/checkpoint")

    check(found, log)
    assert "native_writer_unused" in log
    assert "ListObjects" not in s3.proxy.acts()
    assert s3.proxy.troubles == 4
    assert "storage_retried" in log
    s3.attach(oracle, f"ducklake:sqlite:{tmp_path}/lake.sqlite")
    names = oracle.query("SELECT name, count(*), count(DISTINCT id) FROM main.people GROUP BY name ORDER BY name")
    assert names == [("first", 80, 80), ("second", 20, 20)]


def test_spark_writes_and_scans_files_and_keeps_its_checkpoint_on_s3_by_hadoop(
    s3: S3Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "HADOOP_AWS_JARS" not in os.environ:
        pytest.skip("it needs jars: `make test-s3-spark` fetches them and runs this")
    jars = os.environ["HADOOP_AWS_JARS"].split()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.hadoop.fs.s3a.endpoint {s3.proxy.endpoint}\n"
        "spark.hadoop.fs.s3a.path.style.access true\n"
        "spark.hadoop.fs.s3a.endpoint.region us-east-1\n"
        "spark.hadoop.fs.s3a.committer.name magic\n"
        f"{PROTOCOL_SETTING} {S3_PROTOCOL}\n"
        "spark.sql.parquet.output.committer.class org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter\n"
    )

    found, log = run(s3, tmp_path, f"s3a://{s3.name}/{s3.folder}/checkpoint", *jars)

    check(found, log)
    assert found["native"] == ROWS
    assert "native_writer_unused" not in log
    copied = [key for key in s3.objects() if key.startswith("lake/main/copy/")]
    assert copied
    assert all("/part-" in key for key in copied), "not by Spark's own writer"
    assert not any("x-amz-copy-source" in request.headers for request in s3.proxy.requests if "/main/" in request.key)
    assert [key for key in s3.objects() if "magic" in key] == []
    assert [key for key in s3.objects() if key.startswith("checkpoint/offsets/")]
