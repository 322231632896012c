"""The one Spark session of a job: its settings, and the jars of the inputs. Runs on the driver, before Spark starts."""

from __future__ import annotations

from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ducklake_core.errors import TerminalError
from ducklake_core.log_lines import one_line
from ducklake_streaming.jobs.connector import jar_settings
from ducklake_streaming.jobs.folders import is_local
from ducklake_streaming.jobs.hadoop_s3 import s3a_settings
from ducklake_streaming.jobs.redaction import redaction_settings
from ducklake_streaming.jobs.settings import Job
from ducklake_streaming.session import make_session

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_JVM_OPTIONS = "spark.driver.extraJavaOptions"


class SparkNotStarted(TerminalError):
    """Spark cannot be started with these settings, or not get its jars."""


def make_job_session(job: Job) -> SparkSession:
    """Start Spark for a job. Raises InvalidInput where there is no Java, or no jars in the folder; SparkNotStarted."""
    settings = spark_settings(job)
    try:
        return make_session(
            job.spark.app_name, job.spark.master, local_checkpoints=has_local_checkpoints(job), settings=settings
        )
    except (PySparkException, Py4JError) as error:
        raise SparkNotStarted(f"Spark has not started; its own lines above may say more: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Return what an error says in one line; of one in Java, py4j tells in the first line only which call it was."""
    lines = str(error).splitlines()
    return next((line.removeprefix(": ") for line in lines[1:] if line.startswith(": ")), one_line(error))


def spark_settings(job: Job) -> dict[str, str]:
    """Return the settings of a job's session: those of the file win."""
    given = job.spark.settings
    log = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()} -Dducklake.log.format={job.log.format}"
    options = f"{log} {given.get(_JVM_OPTIONS, '')}".strip()
    return {
        "spark.ui.showConsoleProgress": "false",  # a job's output is lines
        "spark.sql.timeType.enabled": "true",  # records of Avro and of Debezium have times of day
        **s3a_settings(job),
        **given,
        **jar_settings(job),
        **redaction_settings(job),
        _JVM_OPTIONS: options,
    }


def has_local_checkpoints(job: Job) -> bool:
    """Tell whether one machine alone has all checkpoints."""
    paths = [pipeline.checkpoint for pipeline in job.pipeline.values()]
    return job.spark.master.startswith("local") and all(map(is_local, paths))
