"""What `toArrow` gives for the first frame of a schema, the collector gives for all, and asks for less."""

import pyarrow as pa
import pytest

from ducklake_sinks.arrow_collector import ArrowCollector

UTC = pa.schema([("at", pa.timestamp("us", tz="UTC")), ("n", pa.int64())])
LOCAL = pa.schema([("at", pa.timestamp("us", tz="Europe/Berlin")), ("n", pa.int64())])


class RemoteFrame:
    """As much of a frame of Spark Connect as the collector sees: rows in UTC."""

    def __init__(self, *rows: int) -> None:
        self.rows = rows
        self.asked: list[str] = []

    def toArrow(self) -> pa.Table:  # noqa: N802 # Spark's name
        self.asked.append("toArrow")
        return self._table(UTC)

    def _table(self, schema: pa.Schema) -> pa.Table:
        return pa.table([pa.array(self.rows, pa.int64()).cast(schema.field(0).type), self.rows], schema=schema)


class ClassicFrame(RemoteFrame):
    """One of the classic client, whose rows come in the session's time zone."""

    def _collect_as_arrow(self) -> list[pa.RecordBatch]:
        self.asked.append("rows")
        return self._table(LOCAL).to_batches() if self.rows else []


@pytest.mark.parametrize("rows", [(3, 4), ()], ids=["rows", "none"])
def test_later_frames_are_asked_for_rows_only_and_look_the_same(rows: tuple[int, ...]) -> None:
    collector, first, second = ArrowCollector(), ClassicFrame(1, 2), ClassicFrame(*rows)

    found = [collector.collect(frame) for frame in (first, second)]  # type: ignore[arg-type] # see the classes

    assert (first.asked, second.asked) == (["toArrow"], ["rows"])
    assert found[1].equals(second.toArrow())


def test_frames_of_connect_are_always_asked_for_all() -> None:
    collector, frames = ArrowCollector(), [RemoteFrame(1), RemoteFrame(2)]

    found = [collector.collect(frame) for frame in frames]  # type: ignore[arg-type] # see the classes

    assert [frame.asked for frame in frames] == [["toArrow"], ["toArrow"]]
    assert found[1].column("n").to_pylist() == [2]
