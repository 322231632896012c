"""A client of a Spark Connect server: what users do through one, step by step; prints what it found as JSON.

`python -m tests.cluster.connect_course REMOTE URL DIRECTORY PASSWORD_FILE`. Of this process, the catalog's password is
known only from the middle on; the server has it from the beginning.
"""

import json
import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ducklake_core import Lake
from ducklake_core.errors import DuckLakeError
from ducklake_sinks import DuckLakeSink
from ducklake_sources import native_table
from ducklake_streaming import maintain, start_metrics

ROWS = 30_000


class ConnectCourse:
    """The steps."""

    def __init__(self, remote: str, url: str, directory: str) -> None:
        self.spark = SparkSession.builder.remote(remote).getOrCreate()
        self.url = url
        self.directory = directory

    def streamed(self) -> object:
        """Batches of the server's own Python: large ones by tasks, then small ones."""
        self.spark.range(0, ROWS, 1, 2).write.parquet(f"{self.directory}/input")
        self.spark.range(ROWS, ROWS + 10, 1, 1).write.mode("append").parquet(f"{self.directory}/input")
        stream = self.spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1)
        self._run(stream.parquet(f"{self.directory}/input").writeStream, "streamed")
        return self._sums("main.streamed")

    def fed(self) -> object:
        """A stream of changes into another table."""
        options = {"catalog": self.url, "table": "main.streamed"}
        self._run(self.spark.readStream.format("ducklake").options(**options).load().writeStream, "fed")
        changes = self._read("main.fed", readChangeFeed="true", startingVersion="earliest")
        return {**self._sums("main.fed"), "changes": changes.count()}

    def refused(self) -> object:
        """What this process does by itself needs the password; metrics need the driver's process."""
        sink = DuckLakeSink(self.url, "main.appended", flush=None, stream="by hand")
        return {
            "append": _error(lambda: sink.append(self.spark.range(10))),
            "metrics": _error(lambda: start_metrics(sink, port=0)),
        }

    def appended(self) -> object:
        sink = DuckLakeSink(self.url, "main.appended", flush=None)
        for rows in (10, ROWS):
            sink.append(self.spark.range(0, rows, 1, 2))
        sink.close()
        return self._sums("main.appended")

    def native(self) -> object:
        return {"rows": native_table(self.spark, self.url, "main.appended").count()}

    def merged(self) -> object:
        with Lake.open(self.url) as lake:
            [report] = maintain(lake, spark=self.spark, operations=["merge"], large_bytes=1)
        return {"failed": report.has_failed, **self._sums("main.streamed")}

    def _run(self, writer: DataStreamWriter, name: str) -> None:
        sink = DuckLakeSink(self.url, f"main.{name}", stream=name, flush=None)
        query = writer.foreachBatch(sink).option("checkpointLocation", f"{self.directory}/checkpoint-{name}")
        query.trigger(availableNow=True).start().awaitTermination()

    def _read(self, table: str, **options: str) -> DataFrame:
        reader = self.spark.read.format("ducklake").option("catalog", self.url).option("table", table)
        return reader.options(**options).load()

    def _sums(self, table: str) -> dict[str, int]:
        found = self._read(table).agg(F.count("*").alias("rows"), F.countDistinct("id").alias("different")).first()
        assert found is not None
        return dict(found.asDict())


def _error(act: Any) -> str | None:  # Any: does something, and returns whatever
    try:
        act()
    except DuckLakeError as error:
        return f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    remote, url, directory, password_file = sys.argv[1:]
    course = ConnectCourse(remote, url, directory)
    for step in ("streamed", "fed", "refused", "appended", "native", "merged"):
        if step == "appended":
            os.environ["PGPASSFILE"] = password_file
        sys.stdout.write(json.dumps({step: getattr(course, step)()}) + "\n")
        sys.stdout.flush()
    course.spark.stop()


if __name__ == "__main__":
    main()
