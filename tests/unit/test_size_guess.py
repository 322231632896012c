"""What a batch will be is judged by its plan and its offsets, before anything of it is read."""

from types import SimpleNamespace
from typing import Any

import pytest

from ducklake_sinks.query import Query
from ducklake_sinks.size_guess import count_records, looks_large

EXABYTES = 2**63 - 1  # what Spark says of a source that does not tell
KAFKA = ('{"t":{"0":100,"1":5}}', '{"t":{"0":150,"1":5,"2":9}}')


def frame_of(size_bytes: int) -> Any:  # Any: as much of a frame as is asked
    stats = SimpleNamespace(sizeInBytes=lambda: size_bytes)
    plan = SimpleNamespace(stats=lambda: stats)
    execution = SimpleNamespace(optimizedPlan=lambda: plan)
    schema = SimpleNamespace(defaultSize=lambda: 10)
    return SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: execution, schema=lambda: schema))


def query_of(*ranges: tuple[str | None, str]) -> Query:
    """Return a query whose plan has a file source, and others with these offsets."""
    found = [SimpleNamespace(nodeName=lambda: "LogicalRelation"), *(_leaf(*texts) for texts in ranges)]
    leaves = SimpleNamespace(size=lambda: len(found), apply=lambda index: found[index])
    execution = SimpleNamespace(logical=lambda: SimpleNamespace(collectLeaves=lambda: leaves))
    return Query("q", "r", SimpleNamespace(lastExecution=lambda: execution))


def _leaf(start: str | None, end: str) -> SimpleNamespace:
    name = "StreamingDataSourceV2ScanRelation"
    return SimpleNamespace(nodeName=lambda: name, startOffset=lambda: _option(start), endOffset=lambda: _option(end))


def _option(text: str | None) -> SimpleNamespace:
    return SimpleNamespace(isDefined=lambda: text is not None, get=lambda: SimpleNamespace(json=lambda: text))


@pytest.mark.parametrize(
    ("size_bytes", "few_rows", "few_bytes", "expected"),
    [
        (1000, 100, 1001, False),
        (1000, 100, 999, True),
        (4001, 100, 10**6, True),  # more than 100 rows of 10 bytes, even if what is read is four times as long
        (EXABYTES, 100, 1000, False),
        (EXABYTES, 0, 1000, True),  # nothing is to be inlined
    ],
)
def test_plan_tells_whether_a_batch_is_large(size_bytes: int, few_rows: int, few_bytes: int, expected: bool) -> None:  # noqa: FBT001 # of the table
    assert looks_large(frame_of(size_bytes), query_of(), few_rows, few_bytes) is expected


@pytest.mark.parametrize(("few_rows", "expected"), [(49, True), (50, False)])
def test_offsets_of_kafka_tell_how_many_records_a_batch_has(few_rows: int, expected: bool) -> None:  # noqa: FBT001 # of the table
    query = query_of((None, "3"), ("no JSON", '{"seconds":3}'), KAFKA)

    assert looks_large(frame_of(EXABYTES), query, few_rows, 1000) is expected


def test_offsets_of_other_sources_are_not_counted() -> None:
    assert count_records({"t": {"0": 1}}, {"t": {"0": 4, "1": 3}}) == 3
    assert count_records({"logOffset": 1}, {"logOffset": 4}) is None
    assert count_records(None, {"t": {"0": 4}}) is None
