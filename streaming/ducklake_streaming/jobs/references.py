"""References of a job file: every text is looked at, what is missing is told by its key, and values stay hidden.

Runs on the driver. How a single text is resolved is in `ducklake_core.references`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from ducklake_core.errors import InvalidInput
from ducklake_core.references import ReferencedText, resolve

HIDDEN = "***"
_SHORTEST = 4  # of a shorter value nothing is hidden: it is in every other word
_SHORTEST_LINE = 16  # of a secret with several lines, such as a key
_PASSWORD = re.compile(r"""//[^/@:]*:([^@]+)@|password\s*=\s*["']?([^"'\s;&]+)""", re.IGNORECASE)


@dataclass(slots=True)
class Resolver:
    """Resolves the texts of a file, and keeps what it could not find and what has to stay hidden."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    problems: dict[str, list[str]] = field(default_factory=dict)  # by key
    secrets: list[str] = field(default_factory=list)

    def resolve(self, value: Any, path: str = "") -> Any:  # Any: whatever TOML may hold
        if isinstance(value, Mapping):
            return {name: self.resolve(one, f"{path}.{name}" if path else name) for name, one in value.items()}
        if isinstance(value, list):
            return [self.resolve(one, path) for one in value]
        return self._text(value, path) if isinstance(value, str) else value

    def _text(self, text: str, path: str) -> str:
        try:
            found = resolve(text, self.environment, self.folder)
        except InvalidInput as error:
            self.problems.setdefault(path, []).extend(error.problems)
            return ReferencedText(text, text, text, (text,))  # what else is wrong is looked for with it
        if isinstance(found, ReferencedText):
            self.secrets += [form for value in found.values for form in forms_of(value)]
        return found


def forms_of(secret: str) -> list[str]:
    """Return a secret with what else of it may be shown: a URL's password, its encodings, its lines."""
    passwords = [part for match in _PASSWORD.finditer(secret) for part in match.groups() if part]
    lines = [line.strip() for line in secret.splitlines()]
    found = [secret, *passwords, *(line for line in lines if len(line) >= _SHORTEST_LINE)]
    return list(dict.fromkeys(form for one in found for form in (one, unquote(one), quote(one, safe=""))))


class Redactor(logging.Filter):
    """Hides secrets in texts; as a filter of a logging handler, in its records."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__()
        # The longest first: a shorter one may be a part of it.
        self._secrets = sorted({one for one in secrets if len(one) >= _SHORTEST}, key=len, reverse=True)

    def redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, its message and its traceback without secrets."""
        record.msg, record.args = self.redact(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        record.exc_info = None  # else a handler may format it anew
        record.exc_text = record.exc_text and self.redact(record.exc_text)
        return True
