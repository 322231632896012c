"""Hears from Spark what happens to queries. Runs on the driver, in a thread of Spark's, beside the batches.

Python's own listener asks the JVM about a hundred questions for each batch; this one asks for its JSON, which is one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql.streaming.listener import StreamingQueryListener

from ducklake_core.observe import LOG_RECORDER
from ducklake_streaming.metrics.events import ProgressNotCounted
from ducklake_streaming.metrics.progress import ProgressCounter


class QueryListener(StreamingQueryListener):
    """Gives a counter the JSON of what happens. Spark's own methods are never called: see `_jlistener`."""

    def __init__(self, counter: ProgressCounter) -> None:
        self._java = _JavaListener(counter)
        self._wrapped: JavaObject | None = None

    @property
    def _jlistener(self) -> JavaObject:
        """Return what Spark registers, in place of a wrapper that makes Python objects of everything."""
        if self._wrapped is None:
            jvm: Any = SparkContext._jvm  # Any: Java's classes # noqa: SLF001 # there is no public way
            self._wrapped = jvm.PythonStreamingQueryListenerWrapper(self._java)
        return self._wrapped

    def onQueryStarted(self, event: object) -> None: ...  # noqa: N802 # Spark's name

    def onQueryProgress(self, event: object) -> None: ...  # noqa: N802 # Spark's name

    def onQueryTerminated(self, event: object) -> None: ...  # noqa: N802 # Spark's name


class _JavaListener:
    """Is called by the JVM. An error would be logged there with pages of its own: it is said here."""

    def __init__(self, counter: ProgressCounter) -> None:
        self._counter = counter

    def onQueryStarted(self, event: JavaObject) -> None:  # noqa: N802 # Java's name
        self._hear(self._counter.started, event)

    def onQueryProgress(self, event: JavaObject) -> None:  # noqa: N802 # Java's name
        self._hear(lambda told: self._counter.progressed(told["progress"]), event)

    def onQueryIdle(self, event: JavaObject) -> None:  # noqa: N802 # Java's name
        self._hear(self._counter.idle, event)

    def onQueryTerminated(self, event: JavaObject) -> None:  # noqa: N802 # Java's name
        self._hear(self._counter.ended, event)

    def _hear(self, count: Callable[[Mapping[str, Any]], None], event: JavaObject) -> None:  # Any: JSON of Spark
        try:
            count(json.loads(event.json()))
        except (Py4JError, LookupError, TypeError, ValueError) as error:  # Spark may tell it otherwise one day
            LOG_RECORDER.record(ProgressNotCounted(error))

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
