"""Sessions of Spark that know Delta Lake, Iceberg or both, each with the settings it asks for, and their tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.read import SETTINGS
from ducklake_streaming.demo.maven import PEERS as JARS
from ducklake_streaming.demo.maven import fetch_files
from ducklake_streaming.session import make_session

PEERS = "delta", "iceberg"
CATALOG = "ice"  # of Iceberg's tables
_EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


def open_session(folder: Path, peers: Collection[str] = PEERS) -> SparkSession:
    """Make a session with two cores; partitions are few, as the data is small."""
    jars = [str(jar) for jar in fetch_files(JARS) if any(peer in jar.name for peer in peers)]
    settings = {
        **SETTINGS,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.extensions": ",".join(_EXTENSIONS[peer] for peer in peers),
        "spark.jars": ",".join(jars),
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
    }
    if "delta" in peers:
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        settings["spark.databricks.delta.snapshotPartitions"] = "2"
    if "iceberg" in peers:
        settings[f"spark.sql.catalog.{CATALOG}"] = "org.apache.iceberg.spark.SparkCatalog"
        settings[f"spark.sql.catalog.{CATALOG}.type"] = "hadoop"
        settings[f"spark.sql.catalog.{CATALOG}.warehouse"] = str(folder)  # each workload is a namespace of it
    return make_session("benchmark", "local[2]", settings=settings, local_checkpoints=True)


def copy_to_delta(spark: SparkSession, files: Sequence[str], path: Path, properties: Mapping[str, str]) -> None:
    """Make a table of the rows of Parquet files, each file as one: version 0 has none of them, 1 the first."""
    made = spark.read.parquet(files[0]).limit(0).write.format("delta")
    made.options(**{f"delta.{name}": value for name, value in properties.items()}).save(str(path))
    for file in files:
        spark.read.parquet(file).coalesce(1).write.format("delta").mode("append").save(str(path))


def copy_to_iceberg(spark: SparkSession, files: Sequence[str], table: str, properties: Mapping[str, str]) -> None:
    """Make a table of the rows of Parquet files, each file as one."""
    made = spark.read.parquet(files[0]).limit(0).writeTo(table).using("iceberg")
    for name, value in properties.items():
        made = made.tableProperty(name, value)
    made.create()
    for file in files:
        spark.read.parquet(file).coalesce(1).writeTo(table).append()
