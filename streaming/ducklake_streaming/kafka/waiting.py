"""Waiting for a Kafka cluster that is away: bounded, visible, and over at once when nobody needs it. On the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ducklake_core.retries import Patience
from ducklake_streaming.kafka.errors import BrokerUnavailable
from ducklake_streaming.kafka.events import BrokerAway, BrokerBack

Result = TypeVar("Result")

SPOKEN_SECONDS = 10.0  # from one line to the next while no broker answers
_PAUSE_SECONDS = 0.5  # from one attempt to the next
_NAP_SECONDS = 0.2  # how soon a wait notices that nobody needs it any more


class BrokerOutage:
    """The time in which a cluster is away: it says when that begins, that it lasts, and when it is over.

    It is one, however often it is asked within: what a query that failed has used of the patience is gone.
    """

    def __init__(self, stream: str, servers: str, patience: Patience) -> None:
        self._stream = stream
        self._servers = servers
        self._patience = patience
        self._start: float | None = None
        self._spoke_at: float | None = None

    @property
    def seconds(self) -> float:
        """How long it has lasted so far."""
        return 0.0 if self._start is None else self._patience.clock() - self._start

    @property
    def lasts(self) -> bool:
        return self._start is not None

    @property
    def is_over_deadline(self) -> bool:
        return self.seconds >= self._patience.timeout_seconds

    def begin(self, error: BaseException) -> None:
        """Take notice that the cluster is away, still or since now; say so at once, then every few seconds."""
        now = self._patience.clock()
        self._start = now if self._start is None else self._start
        if self._spoke_at is None or now - self._spoke_at >= SPOKEN_SECONDS:
            self._spoke_at = now
            timeout = self._patience.timeout_seconds
            self._patience.recorder.record(BrokerAway(self._stream, self._servers, self.seconds, timeout, error))

    def end(self) -> None:
        """Take notice that the cluster is there; say so to those who have heard that it was away."""
        if self._spoke_at is not None:
            self._patience.recorder.record(BrokerBack(self._stream, self._servers, self.seconds))
        self._start = self._spoke_at = None

    def wait(self, act: Callable[[], Result]) -> Result:
        """Do something again while no broker answers. Raises BrokerUnavailable at the deadline, or when stopped."""
        while True:
            try:
                return act()
            except BrokerUnavailable as error:
                self.begin(error)
                self._nap()
                if self.is_over_deadline or self._patience.is_stopped():
                    raise self.error(error) from error

    def error(self, reason: BrokerUnavailable) -> BrokerUnavailable:
        """Return what to raise when nobody waits any longer."""
        why = "the job was stopped" if self._patience.is_stopped() else "as the input's timeout says"
        return BrokerUnavailable(f"{reason.message}; gave up after {self.seconds:.0f} s, {why}", **reason.facts)

    def _nap(self) -> None:
        end = self._patience.clock() + min(_PAUSE_SECONDS, self._patience.timeout_seconds - self.seconds)
        while (left := end - self._patience.clock()) > 0 and not self._patience.is_stopped():
            self._patience.sleep(min(left, _NAP_SECONDS))
