"""The gate that each batch of a pipeline passes: who stops the query closes it, and waits for the batch within.

Runs on the driver: batches pass it in Spark's threads, and another thread closes it. Spark's own `stop` cancels the
jobs of a batch that runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from ducklake_core.observe import CatalogAway, CatalogBack, Event

STOP_SECONDS = 60  # in which a query that is to be stopped surely is
_POLL_SECONDS = 0.2


class GateClosed(Exception):
    """A batch came after its pipeline was told to end; the next start has it again."""


class BatchGate:
    """Lets batches in, one at a time, until it is closed. It is a recorder too: it hears whether the catalog is away.

    `error` is what the last batch failed with, as it was raised: Spark tells only its text.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.batches = 0  # that have ended well
        self._changed = threading.Condition()
        self._is_closed = False
        self._is_busy = False
        self._is_catalog_away = False

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Let a batch in. Raises GateClosed."""
        with self._changed:
            if self._is_closed:
                raise GateClosed("the pipeline is about to end")
            self._is_busy, self.error = True, None
        try:
            yield
            self.batches += 1
        except BaseException as error:  # whatever ends a batch: the supervisor asks for it, and Spark has only a text
            self.error = error
            raise
        finally:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()

    def close(self, is_running: Callable[[], bool]) -> None:
        """Let nobody in any more, and wait for the batch within, unless it waits for a catalog or its query is gone."""
        with self._changed:
            self._is_closed = True
            while self._is_busy and not self._is_catalog_away and is_running():
                self._changed.wait(_POLL_SECONDS)

    def record(self, event: Event) -> None:
        if isinstance(event, (CatalogAway, CatalogBack)):
            self._is_catalog_away = isinstance(event, CatalogAway)


def await_stop(session: SparkSession) -> None:
    """Wait within a batch until its query is stopped: raises Spark's own interruption, which is no failure of a query.

    Python's call sleeps in the thread of the query, the one that Spark's `stop` interrupts.
    """
    session._jvm.java.lang.Thread.sleep(1000 * STOP_SECONDS)  # type: ignore[union-attr] # noqa: SLF001 # see above
