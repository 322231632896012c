"""Sizes and times as people write them."""

from datetime import timedelta

import pytest

from ducklake_core.errors import InvalidInput
from ducklake_core.spec.options import normalize_option
from ducklake_core.spec.quantities import parse_duration, parse_interval, parse_size


@pytest.mark.parametrize("text", ["5 minutes", "5 minute", "5m", "5min", "5 Mins", "300", " 300 seconds ", "300000 ms"])
def test_a_time_is_taken_as_people_write_it(text: str) -> None:
    assert parse_duration(text) == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("text", "time"),
    [("1 hour", timedelta(hours=1)), ("2 days", timedelta(days=2)), ("1.5 weeks", timedelta(days=10.5))],
)
def test_longer_times_have_their_words(text: str, time: timedelta) -> None:
    assert parse_duration(text) == time


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1 month", timedelta(days=30)),
        ("1 year 2 mons", timedelta(days=425)),
        ("1 day 12 hours", timedelta(days=1.5)),
        ("1 day 12:00:00", timedelta(days=1.5)),
        ("36:30:00.5", timedelta(hours=36.5, seconds=0.5)),
        ("1d12h", timedelta(days=1.5)),
        ("7 days", timedelta(days=7)),
        ("90", timedelta(seconds=90)),
    ],
)
def test_options_of_a_lake_have_times_as_duckdb_writes_intervals(text: str, time: timedelta) -> None:
    assert parse_interval(text) == time


@pytest.mark.parametrize(
    "text", ["", " ", "soon", "1 month or so", "-1 day", "1 day 12", "101 years", "9" * 400 + " y"]
)
def test_what_is_no_interval_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="'5 minutes'"):
        parse_interval(text)


@pytest.mark.parametrize("text", ["64MB", "64 megabytes", "64 Megabyte", "64000000", "64000 kB"])
def test_a_size_is_taken_as_people_write_it(text: str) -> None:
    assert parse_size(text) == 64_000_000
    assert normalize_option("target_file_size", text) == "64000000"


@pytest.mark.parametrize("text", ["5 month", "soon", "-1s", "", "5 m 3 s"])
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="'5 minutes'"):
        parse_duration(text)


@pytest.mark.parametrize(
    "value",
    ["99999999999 days", "9" * 400, "101 years", timedelta(seconds=-1), timedelta.max, 40_000 * 86_400],
    ids=lambda value: str(value)[:20],
)
def test_a_time_that_no_clock_can_count_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="'5 minutes'"):
        parse_duration(value)


@pytest.mark.parametrize("value", ["9" * 400, "9999999999 TB", 2**63], ids=lambda value: str(value)[:20])
def test_a_size_that_no_storage_has_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="'64MB'"):
        parse_size(value)


def test_what_is_no_size_is_refused_with_examples() -> None:
    with pytest.raises(InvalidInput, match="option 'target_file_size' cannot be '5 minutes': a size such as"):
        normalize_option("target_file_size", "5 minutes")
    with pytest.raises(ValueError, match="'64MB'"):
        parse_size(0)
