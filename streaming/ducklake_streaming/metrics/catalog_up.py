"""Whether the catalog answers, by who asked it last: a poll, a batch or a flush. Runs on the driver, in any thread."""

from __future__ import annotations

from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.registry import Numbers


def note_catalog(numbers: Numbers, *, is_up: bool) -> None:
    """Take notice that the catalog has answered, or has not; an outage counts once, whoever meets it."""
    before = numbers.set(m.CATALOG_UP, is_up)
    if before != 0 and not is_up:
        numbers.add(m.CATALOG_OUTAGES, 1)
