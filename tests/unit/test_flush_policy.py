"""When a flush is due."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ducklake_core.model import InlinedState
from ducklake_sinks import FlushPolicy

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = FlushPolicy(rows=100, bytes=1000, age="5m", deletes=10)
LITTLE = InlinedState(rows=99, ended_rows=4, file_deletes=5, size_bytes=999, oldest=NOW - timedelta(seconds=299))


def test_nothing_is_due_below_every_threshold() -> None:
    assert not POLICY.is_due(LITTLE, NOW)


@pytest.mark.parametrize(
    "more",
    [
        {"rows": 100},
        {"size_bytes": 1000},
        {"ended_rows": 5},
        {"file_deletes": 6},
        {"oldest": NOW - timedelta(minutes=5)},
    ],
    ids=lambda more: next(iter(more)),
)
def test_one_threshold_is_enough(more: dict[str, object]) -> None:
    assert POLICY.is_due(replace(LITTLE, **more), NOW)  # type: ignore[arg-type] # each of its own type


def test_deletes_alone_are_enough() -> None:
    only_deletes = InlinedState(rows=0, ended_rows=0, file_deletes=10, size_bytes=0, oldest=NOW)

    assert POLICY.is_due(only_deletes, NOW)


def test_empty_table_is_never_due() -> None:
    nothing = InlinedState(rows=0, ended_rows=0, file_deletes=0, size_bytes=8192, oldest=None)

    assert not POLICY.is_due(nothing, NOW)


def test_no_threshold_no_flush() -> None:
    never = FlushPolicy(rows=None, bytes=None, age=None, deletes=None)
    plenty = InlinedState(10**9, 10**9, 10**9, 10**12, NOW - timedelta(days=1))

    assert not never.is_due(plenty, NOW)


def test_behind_means_several_times_the_rows_and_not_their_age() -> None:
    old = replace(LITTLE, oldest=NOW - timedelta(days=1))

    assert not POLICY.is_due(old, NOW, times=4)
    assert POLICY.is_due(replace(LITTLE, rows=400), NOW, times=4)
