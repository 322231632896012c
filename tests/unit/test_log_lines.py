"""Log lines carry their facts, in the text and as fields."""

import logging

import pytest

from ducklake_core.log_lines import log_event

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
