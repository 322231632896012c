"""How long Delta's MERGE takes for the batches of `benchmarks/upsert.py`, as a function of `foreachBatch` calls it.

Runs by itself in a Python with Spark 4.1, the newest one that Delta is built for, and with Delta's jars:
`PYTHON benchmarks/upsert_delta.py --jars delta-spark_4.1_2.13-4.4.0.jar,delta-storage-4.4.0.jar`. The median of each
kind of keys is printed as JSON. No time is asserted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

_FILES = 20


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    spark = _session(options.jars)
    with tempfile.TemporaryDirectory() as directory:
        found = {kind: measure(spark, f"{directory}/{kind}", kind, options) for kind in ("clustered", "spread")}
        spark.stop()
    sys.stdout.write(json.dumps({"rows": options.rows, "batch": options.batch, "seconds": found}) + "\n")


def measure(spark: SparkSession, path: str, kind: str, options: argparse.Namespace) -> float:
    """Return the median seconds of a batch of updates; the first one, which compiles code, does not count."""
    table = _rows(spark, f"range(0, {options.rows}, 1, {_FILES})", "first")
    table.write.format("delta").save(path)
    merge = f"MERGE INTO delta.`{Path(path)}` t USING updates s ON t.id = s.id"
    merge += " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    seconds = []
    for turn in range(options.rounds + 1):
        rows = _rows(spark, _keys(kind, options.rows, options.batch, turn), f"o{turn}")
        rows.createOrReplaceTempView("updates")
        start = time.perf_counter()
        spark.sql(merge)
        seconds.append(time.perf_counter() - start)
    return round(median(seconds[1:]), 3)


def _keys(kind: str, rows: int, batch: int, turn: int) -> str:
    if kind == "clustered":
        return f"range({rows - batch * (turn + 1)}, {rows - batch * turn}, 1, 1)"
    return f"range({turn}, {rows}, {rows // batch}, 1)"


def _rows(spark: SparkSession, keys: str, name: str) -> DataFrame:
    return spark.sql(f"SELECT id, '{name} ' || id AS name, id * 0.5D AS c0, id * 1.5D AS c1 FROM {keys}")


def _session(jars: str) -> SparkSession:
    """Make a session with the settings that Delta asks for, and few partitions: the data is small."""
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jars", required=True, help="Delta's jars, with commas between them")
    parser.add_argument("--rows", type=int, default=5_000_000, help=f"of the table, in {_FILES} files")
    parser.add_argument("--batch", type=int, default=1_000, help="updates at once")
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
