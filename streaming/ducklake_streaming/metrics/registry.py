"""The numbers of all declared metrics, and their text for Prometheus. Runs on the driver; many threads may count.

Counters and gauges are kept here, so that a poll can replace all series of a metric at once: a table that was dropped
is gone from the next scrape. Only histograms are objects of prometheus_client.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from ducklake_streaming.metrics.declared import (
    CONSUMER,
    METRICS,
    OTHER,
    PIPELINE,
    SECONDS_BUCKETS,
    TABLE,
    TOPIC,
    Kind,
    Metric,
)

Labels: TypeAlias = tuple[str, ...]  # the values, in the order of the metric's labels
Series: TypeAlias = Mapping[Labels, float]

MAX_TABLES = 100
NAMES = frozenset({PIPELINE, TABLE, CONSUMER, TOPIC})  # labels whose values others have given


class NameCap:
    """Gives the first names that come a label of their own, and all others one together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def label(self, name: str) -> str:
        with self._lock:
            if name in self._known or len(self._known) < self._most:
                self._known.add(name)
                return name
        return OTHER


class Numbers(Collector):
    """Holds the series. Its methods take label values in the order in which the metric declares them.

    `redact` takes secrets out of the names that others have given, as they are told; our own words stay.
    """

    def __init__(self, max_tables: int = MAX_TABLES, redact: Callable[[str], str] = str) -> None:
        self.tables = NameCap(max_tables)
        self._redact = redact
        self._lock = threading.Lock()
        self._values: dict[Metric, dict[Labels, float]] = {
            metric: {} for metric in METRICS if metric.kind is not Kind.HISTOGRAM
        }
        self._registry = CollectorRegistry()
        self._histograms = {
            metric: Histogram(metric.name, metric.help, metric.labels, registry=self._registry, buckets=SECONDS_BUCKETS)
            for metric in METRICS
            if metric.kind is Kind.HISTOGRAM
        }
        self._registry.register(self)
        for kind in (ProcessCollector, PlatformCollector, GCCollector):
            kind(registry=self._registry)

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        """Add to a counter; 0 makes it known, so that its first increase is seen as one."""
        with self._lock:
            values = self._values[metric]
            values[labels] = values.get(labels, 0.0) + amount

    def set(self, metric: Metric, value: float, *labels: str) -> float | None:
        """Set a gauge; return what it was, None: nobody had told it."""
        with self._lock:
            before = self._values[metric].get(labels)
            self._values[metric][labels] = value
            return before

    def replace(self, metric: Metric, values: Series) -> None:
        """Put these series in the place of all that the metric has."""
        with self._lock:
            self._values[metric] = dict(values)

    def replace_of(self, metric: Metric, first: str, values: Series) -> None:
        """Put these series in the place of those whose first label is this."""
        with self._lock:
            others = {labels: value for labels, value in self._values[metric].items() if labels[0] != first}
            self._values[metric] = {**others, **values}

    def observe(self, metric: Metric, seconds: float, *labels: str) -> None:
        self._histograms[metric].labels(*self._shown(metric, labels)).observe(seconds)

    def value(self, metric: Metric, *labels: str) -> float | None:
        """Return what a counter or gauge is at; None: nobody has told it."""
        with self._lock:
            return self._values[metric].get(labels)

    def series(self, metric: Metric) -> Series:
        """Return all series of a counter or gauge."""
        with self._lock:
            return dict(self._values[metric])

    def collect(self) -> Iterator[Family]:
        """Yield the counters and gauges that have been told; prometheus_client calls this at a scrape."""
        with self._lock:
            told = {metric: dict(values) for metric, values in self._values.items() if values}
        for metric, values in told.items():
            family = _FAMILIES[metric.kind](metric.name, metric.help, labels=metric.labels)
            for labels, value in self._merged(metric, values).items():
                family.add_metric(labels, value)
            yield family

    def _merged(self, metric: Metric, values: Series) -> Series:
        """Return series without secrets; of two that are one without, a counter has the sum, a gauge the larger."""
        found: dict[Labels, float] = {}
        for labels, value in values.items():
            key = self._shown(metric, labels)
            if metric.kind is Kind.COUNTER:
                found[key] = found.get(key, 0.0) + value
            else:
                found[key] = max(found.get(key, value), value)
        return found

    def _shown(self, metric: Metric, labels: Labels) -> Labels:
        told = zip(metric.labels, labels, strict=True)
        return tuple(self._redact(value) if name in NAMES else value for name, value in told)

    def text(self) -> bytes:
        """Return all metrics as Prometheus reads them."""
        return generate_latest(_WithoutCreated(self._registry))


_FAMILIES: dict[Kind, type[CounterMetricFamily | GaugeMetricFamily]] = {
    Kind.COUNTER: CounterMetricFamily,
    Kind.GAUGE: GaugeMetricFamily,
}


class _WithoutCreated(Collector):
    """Leaves out when each series was made: these are as many series again, which nobody asks for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Family]:
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family
