"""What to do again because an object store is busy or away for a moment, how often, and that it is told.

Runs on driver and executors. The store's own client has tried a few times before; each try here is an event.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from ducklake_core.clock import SYSTEM_CLOCK
from ducklake_core.file_events import StorageRetried
from ducklake_core.observe import LOG_RECORDER, Recorder
from ducklake_core.spec.paths import hide_password

Result = TypeVar("Result")
_STOP: stop_base = stop_after_attempt(8)
_WAIT: wait_base = wait_random_exponential(multiplier=0.5, max=10)

# As pyarrow's client of S3 and s3fs name them; see "Error responses" of S3's API reference.
_PASSING = re.compile(
    r"SLOW_?DOWN|SERVICE_?UNAVAILABLE|NETWORK_CONNECTION|INTERNAL_?(FAILURE|ERROR)|REQUEST_?TIMEOUT|THROTTLING"
    r"|Too Many Requests|reduce your request rate|Could not connect|Connection (was closed|reset)"
    r"|HTTP response code 5\d\d|UNKNOWN \(HTTP status (429|5\d\d)\)",
    re.IGNORECASE,
)


def is_passing(error: BaseException) -> bool:
    """Tell whether the same may succeed in a moment."""
    return isinstance(error, (ConnectionError, TimeoutError)) or (
        isinstance(error, OSError) and _PASSING.search(str(error)) is not None
    )


@dataclass(frozen=True, slots=True)
class StoragePatience:
    """How often a busy store is asked again: eight times in about a minute, with pauses that grow up to ten seconds."""

    stop: stop_base = _STOP
    wait: wait_base = _WAIT
    sleep: Callable[[float], None] = SYSTEM_CLOCK.sleep
    recorder: Recorder = LOG_RECORDER

    def run(self, act: Callable[[], Result], path: str) -> Result:
        """Do something that may be done twice; raise its last error."""

        def tell(state: RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome is not None else None
            if error is not None:
                pause = round(state.upcoming_sleep, 1)
                self.recorder.record(StorageRetried(hide_password(path), state.attempt_number, pause, error))

        policy = Retrying(
            retry=retry_if_exception(is_passing),
            stop=self.stop,
            wait=self.wait,
            sleep=self.sleep,
            before_sleep=tell,
            reraise=True,
        )
        return policy(act)


STORAGE_PATIENCE = StoragePatience()
