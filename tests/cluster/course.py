"""A driver that does on a cluster all that users do there, step by step, and prints what it found as JSON.

`python -m tests.cluster.course PLAN`, with the plan as JSON. Only the driver's environment has the catalog's password.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention

from ducklake_core import Lake
from ducklake_core.errors import UnwritableFile
from ducklake_sinks import DuckLakeSink
from ducklake_sources import native_table
from ducklake_streaming import maintain
from ducklake_streaming.session import make_session
from tests.cluster.troubles import Trouble

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "700m",
    "spark.executor.cores": "1",
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.executorEnv.PGPASSFILE": "/nowhere",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}
LARGE_TEXT_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Plan:
    """What a course does, and where. `rows`: of each large batch."""

    master: str
    url: str
    directory: str
    steps: Sequence[str]
    rows: int = 60_000
    settings: dict[str, str] = field(default_factory=dict)
    catalog_timeout: str = "2m"


class Course:
    """The steps; each is a method that returns what a test looks at."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @cached_property
    def spark(self) -> SparkSession:
        spark = make_session("course", self.plan.master, settings={**SETTINGS, **self.plan.settings})
        spark.sparkContext.setLogLevel("ERROR")
        return spark

    @cached_property
    def lake(self) -> Lake:
        return Lake.open(self.plan.url)

    # ---- writing

    def native(self) -> object:
        """Spark's own writer; an executor dies in the middle of the second batch."""
        return self._written("native", "executor dies")

    def tasks(self) -> object:
        """Tasks of ours, since the table has buckets; an executor dies in the middle of the second batch."""
        return self._written("tasks", "executor dies", partition_by=["bucket(3, part)"])

    def speculated_native(self) -> object:
        return self._written("speculated_native", "first attempt is slow")

    def speculated_tasks(self) -> object:
        return self._written("speculated_tasks", "first attempt is slow", partition_by=["bucket(3, part)"])

    def worker_lost(self) -> object:
        return self._written("worker_lost", "worker dies", partition_by=["bucket(3, part)"])

    def routed(self) -> object:
        """Two tables and dead letters from one large batch."""
        rows = self.plan.rows
        target = "CASE WHEN id % 10 = 9 THEN NULL WHEN id % 2 = 0 THEN 'main.even' ELSE 'main.odd' END AS target"
        with_sink = self._sink(None, route="target", on_bad_row="quarantine", dead_letter_table="main.letters")
        with_sink(self._rows(rows).selectExpr("id", target), 0)
        with_sink.close()
        return {name: self._counted(f"main.{name}")["rows"] for name in ("even", "odd", "letters")}

    def upserted(self) -> object:
        """Changes by key: an executor dies in the middle of the second batch, which comes twice."""
        trouble, rows = self._trouble("upserted", "executor dies"), self.plan.rows // 10
        changes = {"keys": ["id"], "apply_as_deletes": "part = 0", "except_columns": ["bucket(3, part)"]}
        sink = self._sink("main.upserted", mode="upsert", **changes)
        sink(self._rows(rows).selectExpr("id", "1 AS part", "text"), 0)
        changed = self._rows(rows, first=rows // 2)
        sink(trouble.on(changed), 1)
        sink(changed, 1)
        sink.close()
        read = _sums(self._read("main.upserted"), "id")
        return {**self._counted("main.upserted"), "read": read, "attempts": trouble.attempts()}

    def streamed(self) -> object:
        """A query with a checkpoint, whose third batch lets an executor die."""
        folder = f"{self.plan.directory}/input"
        self._rows(3 * self.plan.rows).repartition(3).write.parquet(folder)
        sink = self._sink("main.streamed")

        def write(frame: DataFrame, batch_id: int) -> None:
            dies = batch_id == 2  # the third
            sink(self._trouble("streamed", "executor dies").on(frame) if dies else frame, batch_id)

        stream = self.spark.readStream.schema("id bigint, part bigint, text string").option("maxFilesPerTrigger", 1)
        query = (
            stream.parquet(folder)
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", f"{self.plan.directory}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        sink.close()
        return self._counted("main.streamed")

    def unshared(self) -> object:
        """Executors whose disk is their own: by both writers, nothing may be committed."""
        found = {}
        for table, options in {"unshared_native": {}, "unshared_tasks": {"partition_by": ["bucket(3, part)"]}}.items():
            sink = self._sink(f"main.{table}", **options)
            try:
                sink(self._rows(self.plan.rows), 0)
                found[table] = "committed"
            except UnwritableFile as error:
                found[table] = str(error)
            sink.close()
        return {**found, "tables": [table.version.name for table in self.lake.tables()]}

    def allocated(self) -> object:
        """Executors that come with work and go when there is none: between batches, all of them."""
        sink, counts = self._sink("main.allocated", partition_by=["bucket(3, part)"]), []
        for batch_id in range(3):
            sink(self._rows(self.plan.rows, first=batch_id * self.plan.rows), batch_id)
            counts.append(self._executors())
            self._wait_for_no_executors()
        sink.close()
        return {"executors": counts, **self._counted("main.allocated")}

    def _written(self, name: str, kind: str, **options: Any) -> object:  # Any: whatever a sink takes
        sink, trouble, rows = self._sink(f"main.{name}", **options), self._trouble(name, kind), self.plan.rows
        sink(self._rows(rows), 0)
        sink(trouble.on(self._rows(rows, first=rows)), 1)
        sink.close()
        folders = list(Path(f"{self.plan.directory}/data/main/{name}").glob("ducklake-*/"))
        return {**self._counted(f"main.{name}"), "attempts": trouble.attempts(), "native": len(folders)}

    # ---- reading

    def feed(self) -> object:
        """The changes of a table with many files."""
        changes = self._read("main.many", readChangeFeed="true", startingVersion="earliest")
        row = changes.agg(F.count("*").alias("rows"), F.sum("_rowid").alias("sum")).first()
        assert row is not None
        return {"partitions": changes.rdd.getNumPartitions(), **row.asDict()}

    def feed_stream(self) -> object:
        """Inserts as a stream, from the lake into the lake."""
        sink = self._sink("main.copied", stream="copied")
        options = {"catalog": self.plan.url, "table": "main.native"}
        stream = self.spark.readStream.format("ducklake").options(**options).load()
        query = stream.writeStream.foreachBatch(sink).option("checkpointLocation", f"{self.plan.directory}/copied")
        query.trigger(availableNow=True).start().awaitTermination()
        sink.close()
        return self._counted("main.copied")

    def reads(self) -> object:
        return {
            "table": _sums(self._read("main.native"), "id"),
            "native": _sums(native_table(self.spark, self.plan.url, "main.native"), "id"),
        }

    def many_inlined(self) -> object:
        """More inlined rows than travel with tasks: executors cannot ask the catalog, until the rows are flushed."""
        self.lake.create_table("inlined", {"id": "int64", "text": "varchar"})
        self.lake.set_option("data_inlining_row_limit", 1000, table="inlined", schema="main")
        for first in range(0, 70, 5):  # an append of many bytes would become a file
            texts = [os.urandom(LARGE_TEXT_BYTES // 2).hex() for _ in range(5)]
            self.lake.append("inlined", [{"id": first + i, "text": text} for i, text in enumerate(texts)])
        read = lambda: self._read("main.inlined").select("id").count()  # noqa: E731 # used twice, right here
        feed = lambda: self._read("main.inlined", readChangeFeed="true", startingVersion="earliest").count()  # noqa: E731
        before = {"table": _outcome(read), "feed": _outcome(feed)}
        self.lake.flush_inlined("main.inlined")
        return {"before": before, "after": {"table": _outcome(read), "feed": _outcome(feed)}}

    def merged(self) -> object:
        """Executors merge small files."""
        [report] = maintain(self.lake, spark=self.spark, operations=["merge"], table="main.tasks", large_bytes=1)
        return {"failed": report.has_failed, "work": str(report.work), **self._counted("main.tasks")}

    def fill_many(self) -> object:
        """Write a table of which the feed has many partitions."""
        sink = self._sink("main.many", inline_rows=0)
        sink(self.spark.range(0, 500 * self.plan.rows, 1, 4).selectExpr("id % 1000 AS id"), 0)
        sink.close()
        return {}

    # ---- helpers

    def _sink(self, table: str | None, **options: Any) -> DuckLakeSink:  # Any: whatever a sink takes
        defaults = {"stream": str(table), "flush": None, "inline_rows": 1000}
        return DuckLakeSink(self.plan.url, table, **{**defaults, **options})

    def _rows(self, rows: int, first: int = 0) -> DataFrame:
        frame = self.spark.range(first, first + rows, 1, 4)
        return frame.selectExpr("id", "id % 3 AS part", "concat('text ', id) AS text")

    def _trouble(self, name: str, kind: str) -> Trouble:
        return Trouble(kind, f"{self.plan.directory}/marks/{name}")

    def _read(self, table: str, **options: str) -> DataFrame:
        reader = self.spark.read.format("ducklake").option("catalog", self.plan.url).option("table", table)
        return reader.option("catalogTimeout", self.plan.catalog_timeout).options(**options).load()

    def _counted(self, table: str) -> dict[str, int]:
        """Return what the lake has, read by this process alone: rows, and how many of them are different."""
        ids = self.lake.table(table).read().column(0)
        return {"rows": len(ids), "different": len(ids.unique())}

    def _executors(self) -> int:
        infos = self.spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
        return len(list(infos)) - 1  # the driver is one

    def _wait_for_no_executors(self) -> None:
        from tests.fixtures.waiting import wait_until  # noqa: PLC0415 # only where executors are allocated

        wait_until(lambda: self._executors() == 0, self._executors)


def _sums(frame: DataFrame, column: str) -> dict[str, int]:
    row = frame.agg(F.count("*").alias("rows"), F.countDistinct(column).alias("different")).first()
    assert row is not None
    return dict(row.asDict())


def _outcome(act: Callable[[], int]) -> object:
    try:
        return act()
    except PySparkException as error:
        return str(error)


def main() -> None:
    plan = Plan(**json.loads(sys.argv[1]))
    course = Course(plan)
    for step in plan.steps:
        sys.stdout.write(json.dumps({step: getattr(course, step)()}) + "\n")
        sys.stdout.flush()
    course.lake.close()
    course.spark.stop()


if __name__ == "__main__":
    main()
