"""Spark's own way to S3: who needs it, and what is said where its jar is missing."""

from pathlib import Path

import pytest

from ducklake_core.errors import InvalidInput
from ducklake_core.spec.paths import hadoop_storage
from ducklake_sinks.native_files import PROTOCOL_SETTING, S3_PROTOCOL
from ducklake_streaming.jobs.hadoop_s3 import check_s3_address, needs_hadoop, s3a_settings
from ducklake_streaming.jobs.settings import Job

STORAGE = {"endpoint": "https://s3.example.com", "region": "eu-1"}


def job(checkpoint: str, **spark: object) -> Job:
    pipeline = {"checkpoint": checkpoint, "input": {"kind": "rate"}, "sink": {"table": "t"}}
    catalog = {"url": "sqlite:////lake.sqlite", "data_path": "s3://b/lake/", "storage": STORAGE}
    return Job.parse({"catalog": catalog, "spark": spark, "pipeline": {"p": pipeline}})


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("s3://b/c", "s3a://b/c"),
        ("S3N://b/c", "s3a://b/c"),
        ("s3a://b/c", "s3a://b/c"),
        ("/c", "/c"),
        ("gs://b", "gs://b"),
    ],
)
def test_spark_gets_hadoops_name_of_the_store(path: str, name: str) -> None:
    assert hadoop_storage(path) == name


def test_data_files_on_s3_need_nothing_of_hadoop() -> None:
    assert not needs_hadoop(job("/c"))
    assert s3a_settings(job("/c")) == {}


def test_checkpoint_and_files_of_spark_get_the_way_to_the_store_and_no_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "pw-secret")

    by_spark = {PROTOCOL_SETTING: S3_PROTOCOL}
    assert (
        s3a_settings(job("s3://b/c"))
        == s3a_settings(job("/c", settings=by_spark))
        == {
            "spark.hadoop.fs.s3a.endpoint": "https://s3.example.com",
            "spark.hadoop.fs.s3a.endpoint.region": "eu-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }
    )


def test_checkpoint_on_s3_without_the_jar_is_refused_with_its_name() -> None:
    with pytest.raises(InvalidInput, match=r"'s3://b/c' is on S3, .*org\.apache\.hadoop:hadoop-aws:\d.*spark\.jars"):
        check_s3_address("s3://b/c", job("s3://b/c"))


def test_jar_that_the_file_names_or_its_folder_has_is_enough(tmp_path: Path) -> None:
    (tmp_path / "hadoop-aws-3.5.0.jar").touch()
    named = {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"}

    for made in (job("s3://b/c", settings=named), job("s3://b/c", jars=str(tmp_path))):
        assert "by hadoop-aws" in check_s3_address("s3://b/c", made)
