"""Named retry policies: bounded, with jitter. Sleep is a parameter so that tests do not wait."""

from __future__ import annotations

import time
from collections.abc import Callable

from tenacity import (
    Retrying,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_random_exponential,
)
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from ducklake_core.errors import CommitConflict, TransientError

CONTENTION_WAIT: wait_base = wait_random_exponential(multiplier=0.01, max=1.0)
CONTENTION_STOP: stop_base = stop_after_delay(120)
START_OVER_STOP: stop_base = stop_after_attempt(10)


def commit_retries(
    sleep: Callable[[float], None] = time.sleep,
    stop: stop_base = CONTENTION_STOP,
    wait: wait_base = CONTENTION_WAIT,
) -> Retrying:
    """Retry a commit that lost its snapshot id to another one, or its connection before COMMIT."""
    return Retrying(retry=retry_if_exception_type(TransientError), stop=stop, wait=wait, sleep=sleep, reraise=True)


def start_overs(
    after: Callable[[CommitConflict], bool] = lambda conflict: conflict.facts.get("is_flush", False),
    sleep: Callable[[float], None] = time.sleep,
    stop: stop_base = START_OVER_STOP,
    wait: wait_base = CONTENTION_WAIT,
) -> Retrying:
    """Do an operation again from the new head after a conflict: by default, after one with a flush and nothing else."""
    retry = retry_if_exception(lambda error: isinstance(error, CommitConflict) and after(error))
    return Retrying(retry=retry, stop=stop, wait=wait, sleep=sleep, reraise=True)
