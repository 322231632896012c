"""Numbers of the last hour: what a bucket holds, what a plot shows, and that the memory is bounded."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_streaming.metrics.history import (
    BUCKET_SECONDS,
    BUCKETS,
    HELD_BUCKETS,
    LEAST_SHOWN,
    MAX_SERIES,
    POINTS,
    History,
    Measure,
)

START = datetime(2026, 11, 17, 12, tzinfo=UTC)


def at(buckets: float) -> datetime:
    return START + timedelta(seconds=buckets * BUCKET_SECONDS)


def test_rows_are_added_up_and_shown_per_second() -> None:
    history = History()
    for moment, rows in ((0, 10), (0.5, 15), (2, 50)):
        history.add(Measure.ROWS, "p", at(moment), rows)

    assert [one for one in history.values(Measure.ROWS, "p", at(4)) if one is not None] == [5.0, 0.0, 10.0, 0.0]
    assert history.rate("p", at(4)) == pytest.approx(75 / (4 * BUCKET_SECONDS))


def test_a_pipeline_that_stands_still_falls_to_a_rate_of_zero() -> None:
    history = History()
    history.add(Measure.ROWS, "p", at(0), 1000)

    assert history.rate("p", at(0)) is None
    assert history.rate("p", at(1)) == 1000 / BUCKET_SECONDS
    assert history.rate("p", at(60)) == 0.0
    assert history.values(Measure.ROWS, "p", at(60))[-1] == 0.0


def test_of_batches_the_longest_counts_and_holds_until_the_next() -> None:
    history = History()
    for moment, seconds in ((0, 0.2), (0.4, 0.9), (0.8, 0.1), (2, 0.3)):
        history.add(Measure.BATCH_SECONDS, "p", at(moment), seconds)

    assert history.values(Measure.BATCH_SECONDS, "p", at(3))[-4:] == [0.9, 0.9, 0.3, 0.3]


def test_a_level_holds_until_the_next_but_not_for_ever() -> None:
    history = History()
    history.add(Measure.LAG_RECORDS, "p", at(0), 7)
    history.add(Measure.LAG_RECORDS, "p", at(0.5), 5)

    values = history.values(Measure.LAG_RECORDS, "p", at(HELD_BUCKETS + 3))

    assert values[-HELD_BUCKETS - 4 :] == [5.0] * (HELD_BUCKETS + 1) + [None] * 3


def test_a_plot_that_has_just_begun_shows_two_minutes_and_never_more_than_an_hour() -> None:
    history = History()
    history.add(Measure.INLINED_ROWS, "main.t", at(0), 1)

    assert len(history.values(Measure.INLINED_ROWS, "main.t", at(0))) == LEAST_SHOWN
    assert len(history.values(Measure.INLINED_ROWS, "main.t", at(10 * BUCKETS))) == POINTS
    assert set(history.values(Measure.INLINED_ROWS, "main.t", at(10 * BUCKETS))) == {None}
    assert history.values(Measure.INLINED_ROWS, "main.other", at(0)) == ()


def test_what_is_older_than_an_hour_is_forgotten() -> None:
    history = History()
    history.add(Measure.BATCH_SECONDS, "p", at(0), 99.0)
    history.add(Measure.BATCH_SECONDS, "p", at(BUCKETS), 1.0)

    assert {one for one in history.values(Measure.BATCH_SECONDS, "p", at(BUCKETS)) if one is not None} == {1.0}


def test_a_clock_that_goes_back_loses_nothing_and_breaks_nothing() -> None:
    history = History()
    history.add(Measure.ROWS, "p", at(10), 5)
    history.add(Measure.ROWS, "p", at(3), 5)

    assert history.values(Measure.ROWS, "p", at(11))[-1] == 10 / BUCKET_SECONDS
    assert len(history.values(Measure.ROWS, "p", at(3))) == LEAST_SHOWN - 1


def test_plots_beside_each_other_show_the_same_time() -> None:
    history = History()
    history.add(Measure.ROWS, "p", at(0), 5)
    history.add(Measure.INLINED_ROWS, "main.t", at(50), 5)

    rows, inlined = history.values(Measure.ROWS, "p", at(60)), history.values(Measure.INLINED_ROWS, "main.t", at(60))

    assert (len(rows), len(inlined)) == (60, 61)  # the newest bucket of rows is not over
    assert history.span_seconds(at(60)) == 61 * BUCKET_SECONDS


def test_there_are_so_many_series_and_no_more() -> None:
    history = History()
    for number in range(2 * MAX_SERIES):
        history.add(Measure.INLINED_ROWS, f"main.t{number}", at(0), 1)

    assert len(history.names(Measure.INLINED_ROWS)) == MAX_SERIES


def test_many_tables_leave_room_for_the_plots_of_pipelines() -> None:
    history = History()
    for number in range(3 * MAX_SERIES):
        history.add(Measure.INLINED_ROWS, f"main.t{number}", at(0), 1)

    history.add(Measure.ROWS, "p", at(0), 10)

    assert history.names(Measure.ROWS) == ("p",)


@given(st.lists(st.tuples(st.integers(0, POINTS - 2), st.integers(0, 1000)), min_size=1))
def test_no_row_is_missing_in_a_plot_and_none_is_there_twice(batches: list[tuple[int, int]]) -> None:
    history = History()
    for moment, rows in sorted(batches):
        history.add(Measure.ROWS, "p", at(moment), rows)

    values = history.values(Measure.ROWS, "p", at(POINTS - 1))

    assert sum(one for one in values if one is not None) * BUCKET_SECONDS == pytest.approx(
        sum(rows for _, rows in batches)
    )


@given(st.lists(st.tuples(st.integers(0, 3 * BUCKETS), st.integers(0, 1000)), min_size=1), st.sampled_from(Measure))
def test_a_plot_has_so_many_points_at_most_and_none_above_what_was_measured(
    told: list[tuple[int, int]], measure: Measure
) -> None:
    history = History()
    for moment, value in told:
        history.add(measure, "p", at(moment), value)

    values = history.values(measure, "p", at(max(moment for moment, _ in told)))

    assert len(values) <= POINTS
    assert all(one is None or 0 <= one <= sum(value for _, value in told) for one in values)
