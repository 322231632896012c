"""Spark's own way to S3, by Hadoop: which addresses of a job need it, the jar for it, its settings. Starts no Spark."""

from __future__ import annotations

import re

from ducklake_core.errors import InvalidInput
from ducklake_core.spec.paths import hide_password, same_storage
from ducklake_core.storage_settings import storage_options
from ducklake_streaming.jobs.connector import JAR_SETTINGS, jar_files, spark_jars
from ducklake_streaming.jobs.settings import FilesInput, Job

_JAR = re.compile(r"hadoop-aws-\d.*\.jar")
_COMMITS = "spark.sql.sources.commitProtocolClass"  # who sets it lets Spark write data files (sinks/native_files)
_HADOOP = re.compile(r"hadoop-client-api-(\d[\w.]*)\.jar")


def is_s3(path: str) -> bool:
    return same_storage(path).startswith("s3://")


def needs_hadoop(job: Job) -> bool:
    """Tell whether Spark itself reads or writes on S3: checkpoints, files that are an input, its own data files."""
    if _COMMITS in job.spark.settings:
        return True
    inputs = [pipeline.input.path for pipeline in job.pipeline.values() if isinstance(pipeline.input, FilesInput)]
    return any(map(is_s3, [*inputs, *(pipeline.checkpoint for pipeline in job.pipeline.values())]))


def s3a_settings(job: Job) -> dict[str, str]:
    """Return how Hadoop reaches the store, as our own client does; nothing where Spark needs it not."""
    if not needs_hadoop(job):
        return {}
    options = storage_options(job.catalog.storage).with_environment()
    is_path_style = options.endpoint is not None if options.path_style is None else options.path_style
    found = {
        "endpoint": options.endpoint,
        "endpoint.region": options.region,
        "path.style.access": str(is_path_style).lower(),
    }
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in found.items() if value is not None}


def check_s3_address(path: str, job: Job) -> str:
    """Return that Spark can reach an address on S3; raise InvalidInput that names the jar where it cannot."""
    shown, jars = hide_password(path), spark_jars()
    named = [name for name in JAR_SETTINGS if "hadoop-aws" in job.spark.settings.get(name, "")]
    own = [] if job.spark.jars is None else [file.name for file in jar_files(job.spark.jars)]
    if named or any(map(_JAR.fullmatch, [*own, *jars])):
        return f"{shown}: not looked at, Spark alone can reach it, by hadoop-aws"
    hadoop = next((match[1] for name in jars if (match := _HADOOP.fullmatch(name))), None) or "its version"
    raise InvalidInput(
        f"'{shown}' is on S3, which Spark reaches only by the jar hadoop-aws of Hadoop {hadoop} with its SDK: add "
        f"org.apache.hadoop:hadoop-aws:{hadoop} to 'spark.jars.packages', or put the jars into the folder of "
        "spark.jars, or name a disk that outlives the machine"
    )
