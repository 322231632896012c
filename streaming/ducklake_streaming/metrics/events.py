"""What happens to the exporter itself, as values for the recorder. Made on the driver."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ducklake_core.log_lines import is_worth_saying
from ducklake_streaming.kafka.events import StreamingEvent


@dataclass(frozen=True, slots=True)
class MetricsServed(StreamingEvent):
    """Metrics can be asked for at a URL."""

    line = "metrics_served"
    url: str


@dataclass(frozen=True, slots=True)
class PollFailed(StreamingEvent):
    """Numbers of the catalog, of Kafka or of the JVM could not be read, so many times in a row; the last ones stand.

    It is said at first, and then ever less often.
    """

    line = "poll_failed"
    poller: str
    times: int
    error: BaseException

    def severity(self) -> int:
        return logging.WARNING if is_worth_saying(self.times) else logging.DEBUG
