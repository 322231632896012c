"""`start_metrics` without Spark: what it is told of time, and what it says of a mistake."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark.sql import SparkSession

from ducklake_core.errors import InvalidInput
from ducklake_sinks import DuckLakeSink
from ducklake_streaming import start_metrics
from ducklake_streaming.metrics import declared as m


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[DuckLakeSink]:
    made = DuckLakeSink(f"sqlite:///{tmp_path}/lake.sqlite", "t", data_path=f"{tmp_path}/data/")
    yield made
    made.close()


@pytest.mark.parametrize("name", ["every", "trigger", "stuck_after"])
def test_a_time_that_is_none_is_named(sink: DuckLakeSink, name: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name} is 'soon', but must be a number of seconds"):
        start_metrics(sink, **{name: "soon"})  # type: ignore[arg-type] # mypy takes it for any of them


def test_the_trigger_of_the_query_is_told(sink: DuckLakeSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", MagicMock)  # a session is only listened to here

    with start_metrics(sink, port=0, poll=False, trigger="10 minutes") as exporter:
        assert exporter.numbers.value(m.SINK_TRIGGER, "t") == 600
