"""Named retry policies: bounded, with jitter. Sleep and clock are parameters so that tests do not wait.

A catalog that is away is waited for in one place, where it is asked or written to; nobody else waits around that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NoReturn, TypeAlias, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from ducklake_core.clock import SYSTEM_CLOCK
from ducklake_core.errors import CatalogUnavailable, CommitConflict, ContentionError, InvalidInput
from ducklake_core.observe import (
    LOG_RECORDER,
    CatalogAway,
    CatalogBack,
    ConflictRetried,
    Recorder,
    Recorders,
    Retried,
)
from ducklake_core.spec.quantities import parse_duration

Result = TypeVar("Result")

DEFAULT_TIMEOUT_SECONDS = 120.0
CONTENTION_WAIT: wait_base = wait_random_exponential(multiplier=0.01, max=1.0)
CONFLICT_STOP: stop_base = stop_after_attempt(10)
UPSERT_STOP: stop_base = stop_after_attempt(30)  # each looks again, at what is new
COMPACTION_STOP: stop_base = stop_after_attempt(3)  # each writes files anew
COMMIT_STOP: stop_base = stop_after_attempt(10)  # each offers the same files again
_SPOKEN_SECONDS = 10.0  # from one line to the next while the catalog is away
_NAP_SECONDS = 0.2  # how soon a wait notices that nobody needs it any more


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a catalog that is away is waited for, and who is told of it.

    `is_stopped` is asked meanwhile: True ends the wait at once.
    """

    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    is_stopped: Callable[[], bool] = _never
    sleep: Callable[[float], None] = SYSTEM_CLOCK.sleep
    clock: Callable[[], float] = SYSTEM_CLOCK.seconds
    recorder: Recorder = LOG_RECORDER

    @property
    def can_be_stopped(self) -> bool:
        """Whether anybody may end the wait."""
        return self.is_stopped is not _never

    def told_to(self, recorder: Recorder) -> Patience:
        """Return the same with a recorder, which may fail."""
        return replace(self, recorder=Recorders(recorder))

    @classmethod
    def of(cls, catalog_timeout: CatalogTimeout, is_stopped: Callable[[], bool] = _never) -> Patience:
        """Make it of what users say."""
        if isinstance(catalog_timeout, Patience):
            return catalog_timeout
        try:
            return cls(parse_duration(catalog_timeout).total_seconds(), is_stopped)
        except ValueError as error:
            raise InvalidInput(f"catalog_timeout is {catalog_timeout!r}, but must be {error}") from error


CatalogTimeout: TypeAlias = str | float | timedelta | Patience  # two minutes are '2m', 120 or timedelta(minutes=2)


class Outage:
    """One wait for a catalog: it ends by the patience, and says when it begins, that it lasts, and when it is over."""

    def __init__(self, catalog: str, patience: Patience, told_as: type[Retried] = Retried) -> None:
        self._catalog = catalog
        self._told_as = told_as
        self._patience = patience
        self._start = patience.clock()
        self._spoke_at: float | None = None
        self._attempts = 1

    def policy(self) -> Retrying:
        """Return what to try again by."""
        return Retrying(
            retry=retry_if_exception_type((CatalogUnavailable, ContentionError)),
            stop=self._is_over,
            wait=CONTENTION_WAIT,
            sleep=self._nap,
            before_sleep=self.tell,
            retry_error_callback=self._give_up,
        )

    def tell(self, state: RetryCallState) -> None:
        """Say that the catalog is away. Others that write are no outage; nor is a connection that died unused."""
        self._attempts = state.attempt_number
        error = state.outcome.exception() if state.outcome is not None else None
        if error is not None:
            self._patience.recorder.record(self._told_as(self._catalog, self._attempts, error))
        if not isinstance(error, CatalogUnavailable) or (self._attempts == 1 and error.facts.get("was_idle")):
            return
        now = self._patience.clock()
        if self._spoke_at is None or now - self._spoke_at >= _SPOKEN_SECONDS:
            is_new, self._spoke_at = self._spoke_at is None, now
            seconds, timeout = self._seconds(), self._patience.timeout_seconds
            self._patience.recorder.record(CatalogAway(self._catalog, self._attempts, seconds, timeout, error, is_new))

    def end(self) -> None:
        """Say that the catalog is there again: who has heard that it is away must hear this, too."""
        if self._spoke_at is not None:
            self._attempts += 1
            self._patience.recorder.record(CatalogBack(self._catalog, self._attempts, self._seconds()))

    def _give_up(self, state: RetryCallState) -> NoReturn:
        """Raise the last error; one of a catalog that is away says how long it was waited for."""
        error = state.outcome.exception() if state.outcome is not None else None
        if not isinstance(error, CatalogUnavailable):
            raise error or AssertionError("unreachable")  # only an error ends here
        why = "the query was stopped" if self._patience.is_stopped() else "as catalog_timeout says"
        message = f"{error.message}; gave up after {state.attempt_number} attempts in {self._seconds():.0f} s, {why}"
        raise CatalogUnavailable(message, **error.facts) from error

    def _seconds(self) -> float:
        return self._patience.clock() - self._start

    def _is_over(self, _: RetryCallState) -> bool:
        return self._seconds() >= self._patience.timeout_seconds or self._patience.is_stopped()

    def _nap(self, seconds: float) -> None:
        """Sleep, never past the deadline, and no longer than somebody needs the catalog."""
        end = self._patience.clock() + min(seconds, self._patience.timeout_seconds - self._seconds())
        while (left := end - self._patience.clock()) > 0 and not self._patience.is_stopped():
            self._patience.sleep(min(left, _NAP_SECONDS))


def retry_while_unavailable(
    act: Callable[[], Result], patience: Patience, catalog: str, told_as: type[Retried] = Retried
) -> Result:
    """Do something again while the catalog is away, or others write the same. It must be right to do it twice.

    Nothing that waits by itself may be done in it: the waits would add up. `told_as`: the event of each repetition.
    """
    outage = Outage(catalog, patience, told_as)
    try:
        return act()
    except (CatalogUnavailable, ContentionError) as error:
        first = error
    for attempt in outage.policy():
        with attempt:
            if attempt.retry_state.attempt_number == 1:
                raise first
            result = act()
            outage.end()
            return result
    raise AssertionError("unreachable")  # the policy raises


def conflict_retries(
    after: Callable[[CommitConflict], bool] = lambda conflict: conflict.rows_moved,
    sleep: Callable[[float], None] = SYSTEM_CLOCK.sleep,
    stop: stop_base = CONFLICT_STOP,
    wait: wait_base = CONTENTION_WAIT,
    recorder: Recorder = LOG_RECORDER,
) -> Retrying:
    """Do an operation again from the new head after a conflict: by default, after one that only moved rows."""

    def tell(state: RetryCallState) -> None:
        if state.outcome is not None and (error := state.outcome.exception()) is not None:
            recorder.record(ConflictRetried(state.attempt_number, error))

    retry = retry_if_exception(lambda error: isinstance(error, CommitConflict) and after(error))
    return Retrying(retry=retry, stop=stop, wait=wait, sleep=sleep, before_sleep=tell, reraise=True)
