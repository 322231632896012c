"""How rows of frames are fetched: the short way is for frames that have it, which those of Connect only seem to."""

from typing import Any

import pyarrow as pa

from ducklake_sinks.arrow_collector import ArrowCollector


class ConnectFrame:
    """Takes any name for that of a column, as a frame of Connect does."""

    def __getattr__(self, name: str) -> Any:  # Any: a column
        if name == "_jdf":
            raise AttributeError(name)
        return object()

    def toArrow(self) -> pa.Table:  # noqa: N802 # Spark's name
        return pa.table({"i": [1]})


def test_frames_of_connect_are_fetched_by_spark_each_time() -> None:
    collector, frame = ArrowCollector(), ConnectFrame()

    found = [collector.collect(frame).to_pylist() for _ in range(3)]  # type: ignore[arg-type] # a fake

    assert found == [[{"i": 1}]] * 3
