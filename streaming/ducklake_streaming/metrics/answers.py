"""What the server of metrics answers to a request. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

HTML, JSON, TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"
METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"  # as Prometheus names its own format


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one GET. It is made in a thread of the server and never waits for a batch or the catalog."""

    body: bytes
    content_type: str = TEXT
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)  # beside those that every answer has


MakeAnswer: TypeAlias = Callable[[], Answer]
