"""Spark sessions with settings that suit streams into a lake. Runs on the driver, before Spark starts.

What each setting does, what was measured by `benchmarks/session.py`, why one is a choice: `docs/session-settings.md`.
Nothing here is needed for correctness.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from ducklake_streaming.java import require_java
from ducklake_streaming.spark_home import use_unzipped_spark

PYTHON_VARIABLE = "PYSPARK_PYTHON"

# JVM and Python on one machine talk by a Unix domain socket instead of TCP.
UNIX_SOCKETS = {"spark.python.unix.domain.socket.enabled": "true"}

# Parquet that a job writes beside the sink has timestamps that every reader knows, with statistics; INT96 has none.
TIMESTAMPS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}

# The default manager starts programs to look at local files, several for every batch. For all checkpoints of a session.
LOCAL_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}


def session_settings(*, local_checkpoints: bool = False) -> dict[str, str]:
    """Return the settings for a session.

    `local_checkpoints`: every checkpoint of the session is on a local disk (no object store, no network file system),
    and each belongs to one driver at a time.
    """
    return {**UNIX_SOCKETS, **TIMESTAMPS, **(LOCAL_CHECKPOINTS if local_checkpoints else {})}


def make_session(
    app_name: str,
    master: str | None = None,
    *,
    local_checkpoints: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return Spark's session, made with our settings and then the caller's, which win.

    `master` None: as `spark-submit` or Spark's defaults say. Tasks run this Python unless PYSPARK_PYTHON names one.
    Raises InvalidInput that says what to install when Spark finds no Java that it can run on.
    """
    use_this_python()
    if is_on_this_machine(master or (settings or {}).get("spark.master")) and runs_this_python():
        use_unzipped_spark()
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in {**session_settings(local_checkpoints=local_checkpoints), **(settings or {})}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() == "JAVA_GATEWAY_EXITED":  # asked only now: Spark may find a Java by its own settings
            require_java()
        raise


def use_this_python() -> None:
    """Let tasks run the Python that runs us, unless another is named.

    PySpark reads only the environment variable, and takes `python3` of the path without it: in a virtual environment
    that is a Python without pyarrow.
    """
    os.environ.setdefault(PYTHON_VARIABLE, sys.executable)


def runs_this_python() -> bool:
    """Tell whether tasks run the Python that runs us: it has PySpark, another may need Spark's zip."""
    return os.environ.get(PYTHON_VARIABLE) == sys.executable


def is_on_this_machine(master: str | None) -> bool:
    """Tell whether all of a Spark runs on this machine; YARN, for one, sends the zip to executors."""
    return master is not None and re.fullmatch(r"local(\[.*\])?", master) is not None
