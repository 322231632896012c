"""What a task does with its rows, called as Spark would call it; files that no message names are removed."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core.files.parquet_writer import FileLayout
from ducklake_core.files.storage import Storage
from ducklake_core.spec.types import build_columns
from ducklake_sinks.dead_letters import BatchInfo
from ducklake_sinks.routes import route_key
from ducklake_sinks.task_writer import Target, TaskWriter

SCHEMA = T.StructType([T.StructField("id", T.LongType()), T.StructField("topic", T.StringType())])


@pytest.fixture
def writer(tmp_path: Path) -> TaskWriter:
    """Give a writer that makes a file of every record batch, for a table `known`."""
    layout = FileLayout(f"{tmp_path}/", build_columns({"id": "int64", "topic": "varchar"}))
    return TaskWriter(
        storage=Storage.of(f"{tmp_path}/"),
        schema=SCHEMA,
        targets={route_key("known"): Target("known", layout)},
        batch=BatchInfo("s", 0, datetime(2026, 1, 1, tzinfo=UTC)),
        few_rows=0,
        few_bytes=0,
        dead_letters="main.dead_letters",
        route="topic",
        buffer_bytes=1,
    )


def record_batch(topic: str) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array([1, 2], pa.int64()), "topic": [topic, topic]})


def test_task_names_its_files(writer: TaskWriter, tmp_path: Path) -> None:
    result = writer.write(iter([record_batch("known"), record_batch("known")]))

    [message] = result.messages
    assert {file.path for file in message.files} == {path.name for path in tmp_path.iterdir()}
    assert sum(file.record_count for file in message.files) == 4


def test_task_that_fails_removes_its_files(writer: TaskWriter, tmp_path: Path) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield record_batch("known")
        assert list(tmp_path.iterdir())
        raise KeyError("the source is gone")

    with pytest.raises(KeyError, match="the source is gone"):
        writer.write(rows())

    assert list(tmp_path.iterdir()) == []


def test_task_that_meets_an_unknown_table_keeps_nothing(writer: TaskWriter, tmp_path: Path) -> None:
    result = writer.write(iter([record_batch("known"), record_batch("new")]))

    assert (result.messages, result.unknown) == ((), ("new",))
    assert list(tmp_path.iterdir()) == []
