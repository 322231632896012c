"""What an event is, and who is told of it: the log, or recorders of others. No Spark.

The names here are those of `ducklake_core.observe`, where core's own events are.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol

from ducklake_core.clock import SYSTEM_CLOCK
from ducklake_core.log_lines import FailureCounts, is_worth_saying, log_event, log_with_traceback, shown
from ducklake_core.spacing import Repeated, Spacing

CORE_LOG = logging.getLogger("ducklake_core")


class Event:
    """Something that happened. Its class says as what, how loudly and by which logger; its fields are the facts.

    Its docstring is its entry in `docs/log-events.md`: what it means and, after "To do:", what helps.
    """

    __slots__ = ()
    line: ClassVar[str]  # the stable name at the beginning of a log line
    level: ClassVar[int] = logging.INFO
    logger: ClassVar[logging.Logger] = CORE_LOG
    repeats_by: ClassVar[tuple[str, ...] | None] = None  # facts that make two of them alike: then lines are spaced
    summed: ClassVar[tuple[str, ...]] = ()  # facts that are added up from one line to the next
    ends: ClassVar[type[Event] | None] = None  # whose series it ends: said to who has read of that

    def severity(self) -> int:
        """Return the level of the log line."""
        return self.level

    def facts(self) -> Mapping[str, object]:
        """Return what the log line says, in this order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type] # all are

    def traceback_of(self) -> BaseException | None:
        """Return the error whose traceback follows the log line; None for most."""
        return None


class Recorder(Protocol):
    """Is told what happens, at once, in the thread where it happens: it must be quick, and bear to be called by many.

    What it raises is logged and changes nothing else. Over Spark Connect it is pickled with the sink. It hears of its
    own process only: Spark runs sources in processes of their own, whose events are log lines there.
    """

    def record(self, event: Event) -> None: ...


class LogRecorder:
    """Writes the log lines, each event as one: the only place that makes a line of an event.

    What repeats is written at once, and then ever less often, with how often it was; the others are lines at DEBUG.
    """

    def __init__(self, seconds: Callable[[], float] = SYSTEM_CLOCK.seconds) -> None:
        self._spacing: Spacing[Event] = Spacing(seconds)

    def record(self, event: Event) -> None:
        level = event.severity()
        if event.logger.isEnabledFor(level):
            repeated = self._repeated(event)
            _write(event, logging.DEBUG if repeated is None else level, repeated or _ONCE)
        for late, times in self._spacing.due():
            _write(late, late.severity(), times)

    def flush(self) -> None:
        """Write what is held back, with how often it was: at the end, when nothing may come that would be written."""
        for late, times in self._spacing.held_back():
            _write(late, late.severity(), times)

    def forget(self) -> None:
        """Begin anew: what repeats is written at once."""
        self._spacing.clear()

    def _repeated(self, event: Event) -> Repeated | None:
        """Return how often an event was so far; None where its line is held back."""
        if event.ends is not None:
            return self._spacing.end(_key(event, event.ends), event)
        if event.repeats_by is None:
            return _ONCE
        facts = event.facts()
        counts = {name: count for name in event.summed if isinstance(count := facts.get(name), int)}
        return self._spacing.add(_key(event, type(event)), event, counts)

    def __reduce__(self) -> tuple[type[LogRecorder], tuple[()]]:
        return LogRecorder, ()  # in another process nothing was said yet


_ONCE = Repeated(1)


def _key(event: Event, kind: type[Event]) -> tuple[str, ...]:
    """Return what makes an event one of a series of some kind."""
    facts = event.facts()
    return (kind.line, *(shown(facts.get(name)) for name in kind.repeats_by or ()))


def _write(event: Event, level: int, repeated: Repeated) -> None:
    if not event.logger.isEnabledFor(level):
        return
    error, facts = event.traceback_of(), {**event.facts(), **repeated.facts()}
    if error is None:
        log_event(event.logger, level, event.line, **facts)
    else:
        log_with_traceback(event.logger, level, event.line, error, **facts)


class NoRecorder:
    """Hears nothing."""

    def record(self, event: Event) -> None: ...


LOG_RECORDER = LogRecorder()
atexit.register(LOG_RECORDER.flush)
NO_RECORDER = NoRecorder()


class Recorders:
    """Tells several recorders. One that fails keeps neither the others nor what is recorded from going on."""

    def __init__(self, *recorders: Recorder) -> None:
        self._recorders = tuple(r for one in recorders for r in _each_of(one))
        self._failures = FailureCounts()

    def record(self, event: Event) -> None:
        for recorder in self._recorders:
            try:
                recorder.record(event)
            except Exception as error:  # noqa: BLE001 # what is recorded has happened: a batch must not fail for it
                name = type(recorder).__name__
                LOG_RECORDER.record(RecorderFailed(name, event.line, self._failures.add(error, name), error))


def _each_of(recorder: Recorder) -> tuple[Recorder, ...]:
    return recorder._recorders if isinstance(recorder, Recorders) else (recorder,)  # noqa: SLF001 # its own class


@dataclass(frozen=True, slots=True)
class RecorderFailed(Event):
    """A recorder has raised an error, so many times in a row; nothing else has changed.

    Its line comes with a traceback at first, and then ever less often without.

    To do: mend the recorder; `recorded` is the event that it was told.
    """

    line = "recorder_failed"
    recorder: str
    recorded: str
    times: int
    error: BaseException

    def severity(self) -> int:
        return logging.ERROR if is_worth_saying(self.times) else logging.DEBUG

    def traceback_of(self) -> BaseException | None:
        return self.error if self.times == 1 or self.logger.isEnabledFor(logging.DEBUG) else None
