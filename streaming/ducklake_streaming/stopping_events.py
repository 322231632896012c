"""What `run_until_stopped` does, as events for the log. Made on the driver."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from ducklake_streaming.kafka.events import StreamingEvent


@dataclass(frozen=True, slots=True)
class Stopping(StreamingEvent):
    """`run_until_stopped` stops so many queries. `signal`: what came, where it was one."""

    line = "stopping"
    queries: int
    signal: str | None

    def facts(self) -> Mapping[str, object]:
        return {"queries": self.queries, **({} if self.signal is None else {"signal": self.signal})}


@dataclass(frozen=True, slots=True)
class Stopped(StreamingEvent):
    """`run_until_stopped` has stopped its queries, in so many seconds."""

    line = "stopped"
    seconds: float

    def facts(self) -> Mapping[str, object]:
        return {"seconds": round(self.seconds, 1)}


@dataclass(frozen=True, slots=True)
class QueryFailedAfterSignal(StreamingEvent):
    """A query failed after the signal that ends the process, most often because Spark's Java got it, too.

    To do: nothing: the next start repeats the batch. Send the signal to the Python process alone to avoid it.
    """

    line = "query_failed"
    level = logging.WARNING
    signal: str | None
    error: BaseException


@dataclass(frozen=True, slots=True)
class QueryNotStopped(StreamingEvent):
    """A query could not be stopped; the others were, and sinks were closed.

    To do: nothing, if the process has ended: the next start repeats the batch.
    """

    line = "query_not_stopped"
    level = logging.WARNING
    error: BaseException
