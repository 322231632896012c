"""Log lines that carry their facts: `event key=value …`, and the same facts as fields of the record. Runs everywhere.

An event has one stable name; a value with spaces is quoted, so that a line can be taken apart again.
"""

from __future__ import annotations

import json
import logging


def log_event(logger: logging.Logger, level: int, event: str, /, **facts: object) -> None:
    """Write one line for something that happened. An error among the facts is told in one line, with its type."""
    if logger.isEnabledFor(level):
        shown = " ".join(f"{name}={_shown(value)}" for name, value in facts.items())
        # A record's own fields (`name`, `message`, …) cannot be set by `extra`.
        extra = {name: value for name, value in facts.items() if name not in _TAKEN}
        logger.log(level, "%s", f"{event} {shown}".rstrip(), extra=extra)


def one_line(error: BaseException) -> str:
    """Return what an error says, in one line, after the name of its type."""
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _shown(value: object) -> str:
    text = one_line(value) if isinstance(value, BaseException) else str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(c in ' "=\n\r\t' for c in text) else text


_TAKEN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
