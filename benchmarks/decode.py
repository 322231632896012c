"""What decoding records costs in Spark, without Kafka and without a lake: JSON by from_json, Avro by a schema registry.

20 columns, about 300 bytes of JSON, two cores; each is written to Spark's `noop`, in turns. The registry is real
(Apicurio). `python -m benchmarks.decode [--records 400000] [--rounds 5]`
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.registry.access import RegistryOptions
from ducklake_streaming.formats.registry.decoder import RegistryDecoder
from tests.fixtures.registered import avro, record
from tests.fixtures.registry import run_registry

KINDS = ["long"] * 6 + ["string"] * 6 + ["double"] * 4 + [["null", "string"]] * 2 + ["boolean", "int"]
SCHEMA = record(*((f"c{number}", kind) for number, kind in enumerate(KINDS)))
DDL = ", ".join(
    f"c{number} {kind if isinstance(kind, str) else 'string'}" for number, kind in enumerate(KINDS)
).replace("long", "bigint")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    with run_registry() as registry, tempfile.TemporaryDirectory() as folder:
        schema_id = registry.register("bench-value", SCHEMA)
        decoder = RegistryDecoder("avro", registry.url, RegistryOptions.parse({}), ["bench"])
        values = [_value(number) for number in range(1000)]
        texts = _frame(spark, f"{folder}/json", [json.dumps(value).encode() for value in values], options.records)
        records = _frame(spark, f"{folder}/avro", [avro(schema_id, SCHEMA, value) for value in values], options.records)
        rates = _measure(
            {
                "json": lambda: texts.select(F.from_json(F.col("value").cast("string"), DDL).alias("v")),
                "avro": lambda: decoder.decode(records).select("_decoded", "_error"),
            },
            options.records,
            options.rounds,
        )
    for name, rate in rates.items():
        print(f"{name}: {rate:,.0f} records/s")
    print(f"avro / json: {rates['avro'] / rates['json']:.2f}")


def _value(number: int) -> dict[str, Any]:  # Any: one of the kinds
    return {
        **{f"c{column}": number * 10**column for column in range(6)},
        **{f"c{column}": f"text {number}" for column in range(6, 12)},
        **{f"c{column}": number / 7 for column in range(12, 16)},
        **{f"c{column}": None if number % 3 else "note" for column in range(16, 18)},
        "c18": True,
        "c19": number,
    }


def _frame(spark: SparkSession, path: str, values: list[bytes], records: int) -> DataFrame:
    """Return the values again and again, from two files in memory's cache."""
    os.mkdir(path)  # noqa: PTH102 # a text, as Spark wants it
    for part in range(2):
        column = pa.array(values * (records // len(values) // 2), pa.binary())
        topic = pa.array(["bench"] * len(column))
        pq.write_table(pa.table({"topic": topic, "value": column}), f"{path}/{part}.parquet")
    print(f"{path.rpartition('/')[2]}: {sum(map(len, values)) / len(values):.0f} bytes a record")
    return spark.read.parquet(path)


def _measure(frames: dict[str, Callable[[], DataFrame]], records: int, rounds: int) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in frames}
    for number in range(rounds + 1):
        for name, frame in frames.items():
            start = time.perf_counter()
            frame().write.format("noop").mode("overwrite").save()
            if number:  # the first warms up
                seconds[name].append(time.perf_counter() - start)
    return {name: records / median(spent) for name, spent in seconds.items()}


if __name__ == "__main__":
    main()
