"""Numbers of the driver's JVM, by its own beans. Runs on the driver; asked by a thread, and never by a scrape."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.registry import Numbers


class JvmPoll:
    """Asks the beans once for each call."""

    def __init__(self, spark: SparkSession, numbers: Numbers) -> None:
        jvm: Any = spark.sparkContext._jvm  # Any: Java's classes # noqa: SLF001 # there is no public way
        self._beans = jvm.java.lang.management.ManagementFactory
        self._numbers = numbers

    def __call__(self) -> None:
        memory = self._beans.getMemoryMXBean()
        heap = memory.getHeapMemoryUsage()
        self._numbers.set(m.JVM_MEMORY, heap.getUsed(), "heap")
        self._numbers.set(m.JVM_MEMORY, memory.getNonHeapMemoryUsage().getUsed(), "nonheap")
        if heap.getMax() >= 0:  # else the JVM has no limit
            self._numbers.set(m.JVM_MEMORY_MAX, heap.getMax(), "heap")
        collectors = self._beans.getGarbageCollectorMXBeans()
        spent = sum(max(0, collector.getCollectionTime()) for collector in collectors)  # -1: it does not tell
        self._numbers.set(m.JVM_GC_SECONDS, spent / 1000)
        self._numbers.set(m.JVM_THREADS, self._beans.getThreadMXBean().getThreadCount())
