"""Log lines carry their facts, in the text and as fields."""

import json
import logging

import pytest

from ducklake_core.log_lines import FailureCounts, is_worth_saying, line_of, log_event, one_line

log = logging.getLogger("tests.log_lines")


def test_a_line_has_the_event_and_its_facts_in_order(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    log_event(log, logging.INFO, "flushed", table="main.events", rows=200)

    [record] = caplog.records
    assert record.getMessage() == "flushed table=main.events rows=200"
    assert (record.table, record.rows) == ("main.events", 200)  # type: ignore[attr-defined] # set by extra


def test_values_with_spaces_are_quoted_and_errors_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    log_event(log, logging.WARNING, "flush_failed", table="main.my events", error=ValueError("no room\non the disk"))

    assert caplog.messages == ['flush_failed table="main.my events" error="ValueError: no room"']


def test_a_percent_sign_and_a_field_of_the_record_are_taken_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    log_event(log, logging.INFO, "seen", name="50%s")

    assert caplog.messages == ["seen name=50%s"]


def test_a_level_that_is_off_costs_no_text() -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise AssertionError

    log_event(log, logging.DEBUG, "seen", value=Unprintable())


def test_a_failure_that_repeats_is_said_less_and_less_often() -> None:
    counts = FailureCounts()

    said = [times for times in (counts.add(OSError("away"), "t") for _ in range(130)) if is_worth_saying(times)]

    assert said == [1, 2, 4, 8, 16, 32, 64, 128]
    assert counts.end("t") == 130
    assert counts.add(OSError("away"), "t") == 1
    assert counts.add(ValueError("another"), "t") == 1


@pytest.mark.parametrize("text", ["a\x1b[31mb", "a\u2028b", "a\x85b", "a\nb", "\x7f"])
def test_a_value_neither_ends_a_line_nor_tells_a_terminal_what_to_do(text: str) -> None:
    line = line_of("seen", {"value": text})

    assert line.isprintable()
    assert json.loads(line.removeprefix("seen value=")) == text


def test_an_error_of_a_task_is_told_by_what_its_traceback_ends_with() -> None:
    text = (
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
        'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    raise\nerrors.SchemaMismatch: no column\n'
        "\tat org.apache.spark.Task\n"
    )

    assert one_line(RuntimeError(text)) == "RuntimeError: errors.SchemaMismatch: no column"


def test_an_error_of_java_is_told_by_what_java_says() -> None:
    text = "An error occurred while calling o43.create.\n: java.io.IOException: no room\n\tat org.apache.hadoop.fs\n"

    assert one_line(RuntimeError(text)) == "RuntimeError: java.io.IOException: no room"
