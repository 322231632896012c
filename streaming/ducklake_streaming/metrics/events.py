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

    To do: see that what `poller` names can be reached from the driver; batches do not wait for it.
    """

    line = "poll_failed"
    poller: str
    times: int
    error: BaseException

    def severity(self) -> int:
        return logging.WARNING if is_worth_saying(self.times) else logging.DEBUG


@dataclass(frozen=True, slots=True)
class ProgressNotCounted(StreamingEvent):
    """Spark told of a query's progress in a form that is not known: metrics of that query stand still.

    To do: see whether this version of Spark is one that we support.
    """

    line = "progress_not_counted"
    level = logging.ERROR
    repeats_by = ()
    error: BaseException


@dataclass(frozen=True, slots=True)
class RequestFailed(StreamingEvent):
    """A connection to the server of metrics has ended by an error: its client went away, or was too slow."""

    line = "metrics_request_failed"
    level = logging.DEBUG
    error: BaseException


@dataclass(frozen=True, slots=True)
class AnswerFailed(StreamingEvent):
    """The server of metrics could not make an answer; the client was told so.

    To do: report it with the error; batches are not touched.
    """

    line = "metrics_answer_failed"
    level = logging.ERROR
    repeats_by = ("path",)
    path: str
    error: BaseException
