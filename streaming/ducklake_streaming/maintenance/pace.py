"""A bounded share of the time: who has worked rests in proportion. Runs on the driver, in the thread that works."""

from __future__ import annotations

import threading

from ducklake_core.clock import SYSTEM_CLOCK, Clock


class MaintenanceStopped(Exception):
    """Maintenance was told to end. It is no error of the lake, so that none of its handlers takes it for one."""


class Pace:
    """Works for a `share` of the time at most: each rest is as long as the work since the last one demands.

    `stop` ends it: between two pieces of work, and within a rest.
    """

    def __init__(self, share: float, stop: threading.Event, clock: Clock = SYSTEM_CLOCK) -> None:
        self._ratio = (1 - share) / share
        self._stop = stop
        self._clock = clock
        self._since = clock.seconds()

    def begin(self) -> None:
        """Count from now on: what came before was no work."""
        self._since = self._clock.seconds()

    def check(self) -> None:
        """Raise MaintenanceStopped if it is to end."""
        if self._stop.is_set():
            raise MaintenanceStopped

    def rest(self) -> None:
        """Wait in proportion to the work since the last rest. Raises MaintenanceStopped."""
        self._stop.wait(self._ratio * (self._clock.seconds() - self._since))
        self.check()
        self.begin()
