"""References of a job file: every text is looked at, what is missing is told by its key, and values stay hidden.

Runs on the driver. How a single text is resolved is in `ducklake_core.references`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ducklake_core.errors import InvalidInput
from ducklake_core.references import resolve

HIDDEN = "***"
_SHORTEST = 4  # of a shorter value nothing is hidden: it is in every other word


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
            return text
        self.secrets += getattr(found, "values", ())
        return found


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
        record.msg, record.args = self.redact(record.getMessage()), ()
        return True
