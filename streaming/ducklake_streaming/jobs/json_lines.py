"""Log records as JSON, one object per line: time, level, event, logger, then the facts with their types. On the driver.

Records of others have a `message` in place of an event. Secrets are hidden in each value, before JSON escapes anything.
"""

from __future__ import annotations

import json
import logging
import math
import traceback
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime

from ducklake_core.log_lines import RECORD_FIELDS, message_of
from ducklake_streaming.jobs.references import Redactor


class JsonLines(logging.Formatter):
    """Formats records. It hides secrets by itself: its handler needs no other filter for that."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        told: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname,
        }
        facts = {name: value for name, value in vars(record).items() if name not in RECORD_FIELDS}
        event = facts.pop("event", None)
        told |= {"event": event, "logger": record.name} if event else {"logger": record.name}
        told |= {} if event else {"message": record.getMessage()}
        told |= {name: value for name, value in _flat(facts) if name not in told}
        told |= {name: value for name, value in _error(record) if name not in told}
        return json.dumps({name: self._plain(value) for name, value in told.items()})

    def _plain(self, value: object) -> object:
        """Return a value as JSON has it, without secrets. A number stays one, unless it is a secret."""
        if isinstance(value, Mapping):
            return {self._redactor.redact(str(name)): self._plain(one) for name, one in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self._plain(one) for one in value]
        text = _text(value)
        hidden = self._redactor.redact(text)
        is_json = value is None or (isinstance(value, (bool, int, float)) and math.isfinite(value))
        return value if is_json and hidden == text else hidden


def _flat(facts: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the facts; of an error what it says, and its type as a fact of its own."""
    for name, value in facts.items():
        if isinstance(value, BaseException):
            yield name, message_of(value)
            yield f"{name}_type", type(value).__name__
        else:
            yield name, value


def _error(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    """Yield what a record says of the error that it was logged with."""
    kind, error, _ = record.exc_info if isinstance(record.exc_info, tuple) else (None, None, None)
    if kind is not None and error is not None:
        yield from _flat({"error": error})
        yield "traceback", "".join(traceback.format_exception(error)).rstrip()


def _text(value: object) -> str:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    return str(value)
