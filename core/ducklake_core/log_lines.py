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
    _log(logger, level, event, error, {**facts, "error": error})


def _log(
    logger: logging.Logger, level: int, event: str, traceback_of: BaseException | None, facts: Mapping[str, object]
) -> None:
    if logger.isEnabledFor(level):
        # A record's own fields (`name`, `message`, …) cannot be set by `extra`.
        extra = {name: value for name, value in facts.items() if name not in _TAKEN}
        logger.log(level, "%s", line_of(event, facts), extra=extra, exc_info=traceback_of)


def line_of(event: str, facts: Mapping[str, object]) -> str:
    """Return the text of a line: the event's name, and its facts in their order."""
    return " ".join([event, *(f"{name}={_shown(value)}" for name, value in facts.items())])


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


class RepeatedFailures:
    """Says a failure that repeats: at once and with its traceback, then ever less often, with how often it was."""

    def __init__(self, logger: logging.Logger, event: str) -> None:
        self._logger = logger
        self._event = event
        self._counts = FailureCounts()

    def add(self, error: BaseException, subject: str | None = None, **facts: object) -> None:
        """Take notice of a failure; it is said as an error, with the facts."""
        times = self._counts.add(error, subject)
        level = logging.ERROR if is_worth_saying(times) else logging.DEBUG
        if times == 1 or self._logger.isEnabledFor(logging.DEBUG):
            log_with_traceback(self._logger, level, self._event, error, **facts, times=times)
        else:
            log_event(self._logger, level, self._event, **facts, times=times, error=error)

    def end(self, subject: str | None = None) -> int:
        """Forget the failure of a subject, for it went well; return how often it had failed."""
        return self._counts.end(subject)


def one_line(error: BaseException) -> str:
    """Return what an error says, in one line, after the name of its type."""
    line = _telling_line(str(error))
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def _telling_line(text: str) -> str:
    """Return the first line; of a text with a Python traceback, as Spark's errors of tasks are, what that ends with.

    Of an error of Java, by Py4J, the first line says only which call it was of.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling ") and lines[1].startswith(": "):
        lines = [lines[1].removeprefix(": "), *lines[2:]]
    traces = [number for number, line in enumerate(lines) if line.lstrip().startswith("Traceback (most recent")]
    ends = [line for line in lines[traces[-1] + 1 :] if not line[0].isspace()] if traces else []
    return next(iter(ends or lines), "").strip()


def _shown(value: object) -> str:
    text = one_line(value) if isinstance(value, BaseException) else str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(c in ' "=\n\r\t' for c in text) else text


_TAKEN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
