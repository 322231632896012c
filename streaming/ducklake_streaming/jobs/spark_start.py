"""The settings with which a job starts Spark: the file's, jars, and what Spark shall not show. Runs on the driver."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark

from ducklake_core.errors import InvalidInput
from ducklake_core.references import ReferencedText
from ducklake_streaming.jobs.inputs import input_options
from ducklake_streaming.jobs.settings import Job, KafkaInput

_JARS = "spark.jars"
_PACKAGES = "spark.jars.packages"
_HIDDEN = "spark.redaction.regex"
_HIDDEN_BY_SPARK = "(?i)secret|password|token|access[.]?key"  # its default


def spark_settings(job: Job) -> dict[str, str]:
    """Return the settings for the session of a job; raise InvalidInput if its folder of jars has none."""
    settings = dict(job.spark.settings)
    settings |= _with_jars(job, settings) | _with_hidden_options(job, settings)
    return settings


def kafka_package(version: str = pyspark.__version__) -> str:
    """Return the Maven coordinates of Spark's Kafka source, of the version that the installed PySpark has."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"


def find_jars(folder: str) -> list[Path]:
    """Return the jars of a folder; raise InvalidInput if there are none."""
    found = sorted(Path(folder).glob("*.jar"))
    if not found:
        what = "has no jars" if Path(folder).is_dir() else "is no folder"
        raise InvalidInput(
            f"spark.jars: {folder!r} {what}. Put Spark's Kafka source and what it needs there ({kafka_package()}), or "
            "leave spark.jars out: Spark then fetches it from Maven Central"
        )
    return found


def _with_jars(job: Job, settings: dict[str, str]) -> dict[str, str]:
    if job.spark.jars is not None:
        return {_JARS: _listed(settings.get(_JARS), *map(str, find_jars(job.spark.jars)))}
    if any(isinstance(pipeline.input, KafkaInput) for pipeline in job.pipeline.values()):
        return {_PACKAGES: _listed(settings.get(_PACKAGES), kafka_package())}
    return {}


def _listed(before: str | None, *more: str) -> str:
    return ",".join([*([before] if before else []), *more])


def _with_hidden_options(job: Job, settings: dict[str, str]) -> dict[str, str]:
    """Let Spark hide the options of inputs that refer to a secret, beside those that it hides by itself."""
    inputs = [input_options(pipeline.input, job) for pipeline in job.pipeline.values()]
    names = {name for options in inputs for name, value in options.items() if isinstance(value, ReferencedText)}
    if not names:
        return {}
    return {_HIDDEN: "|".join([settings.get(_HIDDEN, _HIDDEN_BY_SPARK), *map(re.escape, sorted(names))])}
