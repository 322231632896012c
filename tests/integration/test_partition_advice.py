"""`day(ts)` alone is the day of the month: whoever partitions so is told once, and why."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ducklake_core import Lake, partition_advice

Act = Callable[[Lake], object]
COLUMNS = {"ts": "timestamp", "t": "time"}
ACTS: dict[str, Act] = {
    "create": lambda lake: lake.create_table("events", COLUMNS, partition_by=["day(ts)"]),
    "set": lambda lake: (lake.create_table("events", COLUMNS), lake.set_partitioning("events", ["day(ts)"])),
}


@pytest.fixture
def lake(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Lake]:
    partition_advice._warn.cache_clear()
    caplog.set_level(logging.WARNING)
    with Lake.create(f"sqlite:///{tmp_path}/lake.sqlite", f"{tmp_path}/data/") as lake:
        yield lake
    partition_advice._warn.cache_clear()


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_day_alone_is_warned_of_once_with_the_reason(lake: Lake, act: Act, caplog: pytest.LogCaptureFixture) -> None:
    act(lake)
    lake.set_partitioning("events", [])
    lake.set_partitioning("events", ["day(ts)"])

    [record] = caplog.records
    assert record.getMessage() == (
        'partition_repeats table=main.events expression=day(ts) missing="year(ts), month(ts)"'
        ' reason="day(ts) is the day of the month, so different months share a partition" instead=date(ts)'
    )


@pytest.mark.parametrize(
    ("expression", "instead"), [("month(ts)", "year(ts), month(ts)"), ("hour(ts)", "date(ts), hour(ts)")]
)
def test_what_is_proposed_instead_repeats_nothing(
    lake: Lake, expression: str, instead: str, caplog: pytest.LogCaptureFixture
) -> None:
    lake.create_table("events", COLUMNS, partition_by=[expression])
    assert any(f'instead="{instead}"' in message for message in caplog.messages)
    caplog.clear()

    lake.set_partitioning("events", instead.split(", "))

    assert not caplog.records


@pytest.mark.parametrize("expressions", [["date(ts)"], ["year(ts)"], ["hour(t)"], ["ts"]], ids=" ".join)
def test_partitions_that_do_not_repeat_are_not_warned_of(
    lake: Lake, expressions: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    lake.create_table("events", COLUMNS, partition_by=expressions)

    assert not caplog.records
