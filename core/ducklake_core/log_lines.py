"""Log lines that carry their facts: `event key=value …`, and the same facts as fields of the record. Runs everywhere.

An event has one stable name; a value with spaces is quoted, so that a line can be taken apart again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping


def log_event(logger: logging.Logger, level: int, event: str, /, **facts: object) -> None:
    """Write one line for something that happened. An error among the facts is told in one line, with its type."""
    _log(logger, level, event, None, facts)


def log_with_traceback(
    logger: logging.Logger, level: int, event: str, error: BaseException, /, **facts: object
) -> None:
    """Write one line with an error, and its traceback below."""
    _log(logger, level, event, error, facts if "error" in facts else {**facts, "error": error})


def _log(
    logger: logging.Logger, level: int, event: str, traceback_of: BaseException | None, facts: Mapping[str, object]
) -> None:
    if logger.isEnabledFor(level):
        # A record's own fields (`name`, `message`, …) cannot be set by `extra`.
        extra = {name: value for name, value in facts.items() if name not in RECORD_FIELDS}
        logger.log(level, "%s", line_of(event, facts), extra={**extra, "event": event}, exc_info=traceback_of)


def line_of(event: str, facts: Mapping[str, object]) -> str:
    """Return the text of a line: the event's name, and its facts in their order."""
    return " ".join([event, *(f"{name}={shown(value)}" for name, value in facts.items())])


class FailureCounts:
    """Counts failures that repeat: one kind of error on one subject is one failure."""

    def __init__(self) -> None:
        self._times: dict[str | None, tuple[type[BaseException], int]] = {}

    def add(self, error: BaseException, subject: str | None = None) -> int:
        """Take notice of a failure; return how often it has been by now."""
        kind, times = self._times.get(subject, (type(error), 0))
        times = times + 1 if kind is type(error) else 1
        self._times[subject] = type(error), times
        return times

    def end(self, subject: str | None = None) -> int:
        """Forget the failure of a subject, for it went well; return how often it had failed."""
        return self._times.pop(subject, (Exception, 0))[1]


def is_worth_saying(times: int) -> bool:
    """Tell whether a failure is said that has been so often: the 1st, 2nd, 4th, 8th, …, and each 64th."""
    return times & (times - 1) == 0 or times % 64 == 0


def one_line(error: BaseException) -> str:
    """Return what an error says, in one line, after the name of its type."""
    line = message_of(error)
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def message_of(error: BaseException) -> str:
    """Return what an error says, in one line: the first; of one that holds a Python traceback, what that ends with.

    Such are Spark's errors of tasks. Of an error of Java, by Py4J, the first line says only which call it was of.
    """
    text = str(error)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling ") and lines[1].startswith(": "):
        lines = [lines[1].removeprefix(": "), *lines[2:]]
    traces = [number for number, line in enumerate(lines) if line.lstrip().startswith("Traceback (most recent")]
    ends = [line for line in lines[traces[-1] + 1 :] if not line[0].isspace()] if traces else []
    return next(iter(ends or lines), "").strip()


def shown(value: object) -> str:
    """Return a value as it stands in a line: in quotes where it would else be taken for more than one."""
    text = one_line(value) if isinstance(value, BaseException) else str(value)
    if not text.isprintable():  # no value ends a line, or tells a terminal what to do
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False) if not text or any(c in ' "=' for c in text) else text


# What a record has by itself: a fact of that name is in the line alone.
RECORD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
