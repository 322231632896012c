"""Real batches of a real query as spans, and what a query says when a batch fails, in which order."""

from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from ducklake_core import Lake
from ducklake_core.observe import LOG_RECORDER, Recorders
from ducklake_sinks import DuckLakeSink
from ducklake_streaming.tracing import TraceRecorder
from tests.fixtures.catalogs import Catalog
from tests.fixtures.driver_jobs import Job
from tests.fixtures.drivers import Drivers
from tests.fixtures.sinks import MakeSink
from tests.fixtures.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)]


class Stream:
    """A query over a folder: each file is a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        (folder / "input").mkdir()

    def run(self, sink: DuckLakeSink, text: str) -> None:
        """Read one more file, which has this text."""
        number = len(list((self._folder / "input").iterdir()))
        (self._folder / "input" / f"{number}.json").write_text(text)
        rows = (
            self._spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).json(str(self._folder / "input"))
        )
        writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(self._folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()


def test_each_batch_of_a_query_is_a_trace(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, tmp_path: Path
) -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    sink = make_sink(recorder=Recorders(LOG_RECORDER, TraceRecorder(provider)), inline_rows=2)
    stream = Stream(spark, tmp_path)

    snapshots = []
    three = '{"id": 1}\n{"id": 2}\n{"id": 3}'
    for text in ('{"id": 1}', three, three):  # the last is expected to be large, so that executors write it
        stream.run(sink, text)
        with Lake.open(catalog.url) as lake:
            [entry] = lake.ledger_entries()
            snapshots.append(entry.snapshot_id)
    with Lake.open(catalog.url) as lake:
        lake.drop_table("main.events")
    with pytest.raises(StreamingQueryException):
        stream.run(sink, '{"id": 4}')

    traces = _by_batch(list(memory.get_finished_spans()))
    small, middle, large, failed = (traces[number] for number in range(4))
    assert [span.name for span in small] == ["ducklake.batch", "ducklake.collect", "ducklake.commit"]
    assert [span.name for span in large] == [
        *("ducklake.batch", "ducklake.collect", "ducklake.write", "ducklake.commit"),
    ]
    for spans in (small, middle, large, failed):
        _check_times(spans)
    facts = [spans[0].attributes or {} for spans in (small, middle, large, failed)]
    assert [one["ducklake.stream"] for one in facts] == 4 * ["s"]
    assert [one["ducklake.outcome"] for one in facts] == ["committed", "committed", "committed", "failed"]
    assert [one.get("ducklake.snapshot_id") for one in facts] == [*snapshots, None]
    assert [one.get("ducklake.rows") for one in facts] == [1, 3, 3, None]
    assert [one.get("ducklake.files") for one in facts] == [0, 1, 1, None]
    status = failed[0].status
    assert status.status_code is StatusCode.ERROR
    assert (status.description or "").startswith("CommitConflict: cannot write to table 'main.events'")


def _by_batch(spans: list[ReadableSpan]) -> dict[int, list[ReadableSpan]]:
    """Return the spans of each batch, by their start; the batch comes first."""
    roots = [span for span in spans if span.name == "ducklake.batch"]
    found: dict[int, list[ReadableSpan]] = {}
    for root in roots:
        below = [span for span in spans if span.parent is not None and span.parent == root.context]
        found[int((root.attributes or {})["ducklake.batch"])] = [root, *sorted(below, key=lambda one: one.start_time)]  # type: ignore[arg-type, return-value] # they have ended
    return found


def _check_times(spans: list[ReadableSpan]) -> None:
    """See that phases lie within their batch, one after the other."""
    batch, *phases = spans
    times = [batch.start_time, *(time for span in phases for time in (span.start_time, span.end_time)), batch.end_time]
    assert times == sorted(times)  # type: ignore[type-var] # they have ended


def test_a_failed_batch_is_named_before_the_pages_of_spark(drivers: Drivers, catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "0.json").write_text('{"id": 1, "name": "a"}')
    sink = {"catalog": catalog.url, "table": "main.events", "stream": "orders"}  # no lake, and no place to make one
    job = Job(str(tmp_path / "input"), str(tmp_path / "checkpoint"), [sink])

    driver = drivers.start(job)
    before = len(driver.log)
    assert "NoLakeFound" in (driver.end() or "")
    wait_until(lambda: "\tat " in driver.log[before:], lambda: driver.log[before:])

    lines = driver.log[before:].splitlines()
    ours = [number for number, line in enumerate(lines) if "batch_failed stream=orders batch=0 error=" in line]
    pages = [
        number for number, line in enumerate(lines) if line.startswith(("Traceback", "\tat ")) or " ERROR " in line
    ]
    assert len(ours) == 1, "\n".join(lines)
    assert "NoLakeFound" in lines[ours[0]]
    assert len(pages) > 10
    assert ours[0] < pages[0], "\n".join(lines[: pages[0] + 1])
