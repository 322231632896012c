"""A thread that asks for something every so often, and waits longer after failures. Runs on the driver."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ducklake_core.observe import Recorder
from ducklake_streaming.metrics.events import PollFailed

LONGEST_SECONDS = 60.0  # after failures: numbers of what is back are soon those of now
EXIT_SECONDS = 5.0


class Poller:
    """Calls `ask` from `start` to `close`, one call after the other: never two at once. `end` is called at last."""

    def __init__(
        self,
        name: str,
        every_seconds: float,
        ask: Callable[[], None],
        recorder: Recorder,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._every = every_seconds
        self._ask = ask
        self._end = end
        self._stop = threading.Event()
        self._failed = 0
        self._recorder = recorder
        self._thread = threading.Thread(target=self._run, name=f"ducklake-{name}", daemon=True)

    @property
    def is_stopped(self) -> bool:
        return self._stop.is_set()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Tell it to end after what it asks now."""
        self._stop.set()

    def close(self, seconds: float = EXIT_SECONDS) -> None:
        """Stop it, and wait for so long at most: what it asks may hang."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def poll(self) -> float:
        """Ask once; return how long to rest."""
        try:
            self._ask()
        except Exception as error:  # noqa: BLE001 # whatever it is, the next poll may go well
            self._failed += 1
            if not self.is_stopped:
                self._recorder.record(PollFailed(self.name, self._failed, error))
            return min(self._every * 2.0 ** min(self._failed, 10), max(self._every, LONGEST_SECONDS))
        self._failed = 0
        return self._every

    def _run(self) -> None:
        rest = 0.0
        while not self._stop.wait(rest):
            rest = self.poll()
        self._end()
