"""Spark's Kafka connector: which jars it is made of, where a job gets them, and whether they fit. Starts no Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from ducklake_core.errors import InvalidInput
from ducklake_streaming.jobs.settings import Job, KafkaInput

PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"
JAR_SETTINGS = ("spark.jars", "spark.jars.packages")
_CONNECTOR = "spark-sql-kafka-0-10_2.13"
_NEEDED = (_CONNECTOR, "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2")
_JAR = re.compile(r"(.+?)-(\d+\..*)\.jar")


def uses_kafka(job: Job) -> bool:
    return any(isinstance(pipeline.input, KafkaInput) for pipeline in job.pipeline.values())


def jar_settings(job: Job) -> dict[str, str]:
    """Return where Spark gets the connector from; nothing where the file has Spark's own settings for that."""
    if job.spark.jars is not None:
        own = job.spark.settings.get("spark.jars")
        return {"spark.jars": ",".join([*([own] if own else []), *map(str, jar_files(job.spark.jars))])}
    if not uses_kafka(job) or any(name in job.spark.settings for name in JAR_SETTINGS) or has_connector():
        return {}
    return {"spark.jars.packages": f"{PACKAGE}:{version('pyspark')}"}


def jar_files(folder: str) -> list[Path]:
    """Return the jars of a folder; raise InvalidInput where there are none."""
    found = sorted(Path(folder).glob("*.jar"))
    if not found:
        raise InvalidInput(
            f"there are no jars in the folder '{folder}', which spark.jars names: put them there, or leave the key "
            "out, and Spark fetches them"
        )
    return found


def check_connector(job: Job) -> str:
    """Return where the connector comes from; raise InvalidInput where jars are missing or of another Spark."""
    if job.spark.jars is not None:
        jars = jar_files(job.spark.jars)
        return _check_jars([jar.name for jar in jars], version("pyspark")) if uses_kafka(job) else f"{len(jars)} jars"
    if not uses_kafka(job):
        return "no jars are needed"
    own = [name for name in JAR_SETTINGS if name in job.spark.settings]
    if own:
        return f"as {' and '.join(own)} of the file say"
    if has_connector():
        return f"{_check_jars(spark_jars(), version('pyspark'))}, in Spark's own folder"
    return f"{PACKAGE}:{version('pyspark')}, which Spark fetches when it starts"


def has_connector() -> bool:
    """Tell whether Spark's own folder of jars has the connector, as in our image and on clusters that bring it."""
    return any(name.startswith(_CONNECTOR) for name in spark_jars())


def spark_jars() -> list[str]:
    """Return the names of the jars that Spark brings."""
    package = find_spec("pyspark")  # found, not imported: a check starts fast
    home = os.environ.get("SPARK_HOME") or (package and package.origin and Path(package.origin).parent)
    return [jar.name for jar in Path(home, "jars").glob("*.jar")] if home else []


def _check_jars(names: Sequence[str], spark: str) -> str:
    found = {match[1]: match[2] for name in names if (match := _JAR.fullmatch(name))}
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise InvalidInput(_missing(missing, found, spark))
    connector = found[_CONNECTOR]
    if connector.partition(".")[0] != spark.partition(".")[0]:
        raise InvalidInput(f"the connector is {connector}, but Spark is {spark}: take {_CONNECTOR}-{spark}.jar")
    is_same = connector.split(".")[:2] == spark.split(".")[:2]
    return f"connector {connector} for Spark {spark}" + ("" if is_same else ", of another version: take its own if any")


def _missing(missing: Sequence[str], found: Mapping[str, str], spark: str) -> str:
    others = ", ".join(f"{name}-….jar" for name in missing)
    version_of = found.get(_CONNECTOR, spark)
    return f"the folder of spark.jars lacks {others}: connector {version_of} needs them all to read Kafka"
