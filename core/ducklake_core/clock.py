"""The time, and how one waits: a parameter of whatever needs it, so that tests pass their own. Runs everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

Now: TypeAlias = Callable[[], datetime]  # tells the time of day, in UTC


utc_now: Now = partial(datetime.now, UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """`now` is the time of day, in UTC; `seconds` only ever grows and is for differences; `sleep` waits so long."""

    now: Now = utc_now
    seconds: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


SYSTEM_CLOCK = Clock()
