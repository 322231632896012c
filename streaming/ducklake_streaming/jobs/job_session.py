"""The one Spark session of a job: its settings, and the jars of the inputs. Runs on the driver, before Spark starts."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from ducklake_core.errors import InvalidInput
from ducklake_streaming.jobs.settings import Job, KafkaInput
from ducklake_streaming.session import make_session

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_JARS = ("spark.jars", "spark.jars.packages")
_JVM_OPTIONS = "spark.driver.extraJavaOptions"
_REMOTE = re.compile(r"(?!file:)[a-zA-Z][a-zA-Z0-9+.-]+:/")


def make_job_session(job: Job) -> SparkSession:
    """Start Spark for a job. Raises InvalidInput where there is no Java, or no jars in the folder that is named."""
    return make_session(
        job.spark.app_name,
        job.spark.master,
        local_checkpoints=has_local_checkpoints(job),
        settings=spark_settings(job),
    )


def spark_settings(job: Job) -> dict[str, str]:
    """Return the settings of a job's session: those of the file win."""
    given = job.spark.settings
    options = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()} {given.get(_JVM_OPTIONS, '')}".strip()
    return {
        "spark.ui.showConsoleProgress": "false",  # a job's output is lines
        **_jar_settings(job),
        **given,
        _JVM_OPTIONS: options,
    }


def has_local_checkpoints(job: Job) -> bool:
    """Tell whether one machine alone has all checkpoints."""
    paths = [pipeline.checkpoint for pipeline in job.pipeline.values()]
    return job.spark.master.startswith("local") and not any(map(_REMOTE.match, paths))


def jar_files(folder: str) -> list[Path]:
    """Return the jars of a folder; raise InvalidInput where there are none."""
    found = sorted(Path(folder).glob("*.jar"))
    if not found:
        raise InvalidInput(
            f"there are no jars in the folder '{folder}', which spark.jars names: put them there, or leave "
            "the key out, and Spark fetches them"
        )
    return found


def _jar_settings(job: Job) -> dict[str, str]:
    """Return where the connector comes from; nothing where the file has Spark's own settings for that."""
    if job.spark.jars is not None:
        return {"spark.jars": ",".join(map(str, jar_files(job.spark.jars)))}
    has_kafka = any(isinstance(pipeline.input, KafkaInput) for pipeline in job.pipeline.values())
    if not has_kafka or any(name in job.spark.settings for name in _JARS):
        return {}
    return {"spark.jars.packages": f"{CONNECTOR}:{pyspark.__version__}"}
