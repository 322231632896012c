"""`TraceRecorder`: a span for each batch with its phases below, and one for each flush. Runs on the driver.

A span is made when its batch has ended, of the times in the batch's report: see docs/adr/0016.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from opentelemetry.trace import Span, Status, StatusCode, Tracer, TracerProvider, get_tracer, set_span_in_context

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.errors import InvalidInput
from ducklake_core.log_lines import message_of, one_line
from ducklake_core.observe import Event, Flushed
from ducklake_core.version import package_version
from ducklake_sinks.events import FlushFailed
from ducklake_sinks.report import BatchFailed, BatchReport, BatchStopped
from ducklake_sinks.stopwatch import BatchCourse
from ducklake_streaming.tracing.attributes import Attributes, batch_attributes, flush_attributes, without_secrets

_UNTIMED = BatchCourse(0.0)  # of a batch that failed before its first phase


class TraceRecorder:
    """Makes spans of what a sink records: `DuckLakeSink(…, recorder=Recorders(LogRecorder(), TraceRecorder()))`.

    `provider`: the SDK's; by default that of the process (`opentelemetry.trace.set_tracer_provider`). `redact` gets
    each text of a span and returns it without secrets. Over Spark Connect a sink is pickled with it: the process there
    needs a provider of its own, so none may be given.
    """

    def __init__(
        self,
        provider: TracerProvider | None = None,
        *,
        redact: Callable[[str], str] = str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._provider = provider
        self._redact = redact
        self._clock = clock
        self._tracer: Tracer | None = None

    def record(self, event: Event) -> None:
        match event:
            case BatchFailed():
                self._batch(event.course, batch_attributes(event), event.error)
            case BatchReport() | BatchStopped():
                self._batch(event.course, batch_attributes(event))
            case Flushed():
                self._flush(event.seconds, flush_attributes(event))
            case FlushFailed() if event.severity() == logging.ERROR:  # as often as the log says it
                self._flush(0.0, flush_attributes(event), event.error)

    def _batch(self, course: BatchCourse | None, attributes: Attributes, error: BaseException | None = None) -> None:
        course = course or _UNTIMED
        end = self._now()
        start = end - _nanoseconds(course.seconds)
        span = self._begin("ducklake.batch", start, attributes, error)
        if span.is_recording():
            self._phases(span, start, course)
        span.end(end)

    def _phases(self, span: Span, start: int, course: BatchCourse) -> None:
        context = set_span_in_context(span)
        for phase in course.phases:
            begin = start + _nanoseconds(phase.start)
            child = self._own_tracer().start_span(f"ducklake.{phase.name}", context, start_time=begin)
            child.end(begin + _nanoseconds(phase.seconds))

    def _flush(self, seconds: float, attributes: Attributes, error: BaseException | None = None) -> None:
        end = self._now()
        self._begin("ducklake.flush", end - _nanoseconds(seconds), attributes, error).end(end)

    def _begin(self, name: str, start: int, attributes: Attributes, error: BaseException | None) -> Span:
        shown = without_secrets(attributes, self._redact)
        span = self._own_tracer().start_span(name, attributes=shown, start_time=start)
        if error is not None:
            kind = type(error).__name__
            span.set_status(Status(StatusCode.ERROR, self._redact(one_line(error))))
            span.set_attribute("error.type", kind)
            told = {"exception.type": kind, "exception.message": self._redact(message_of(error))}
            span.add_event("exception", told)
        return span

    def _own_tracer(self) -> Tracer:
        tracer = self._tracer = self._tracer or get_tracer("ducklake_streaming", package_version(), self._provider)
        return tracer

    def _now(self) -> int:
        """Return the time of day in nanoseconds, as spans have it."""
        return int(self._clock.now().timestamp() * 1_000_000) * 1000

    def __reduce__(self) -> tuple[Callable[[], TraceRecorder], tuple[()]]:
        if self._provider is not None:
            raise InvalidInput(
                "a TraceRecorder with a provider cannot go to another process: over Spark Connect, set the provider "
                "there by opentelemetry.trace.set_tracer_provider, and make TraceRecorder()"
            )
        return partial(TraceRecorder, redact=self._redact), ()


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1_000_000_000)
