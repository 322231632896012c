"""All dashboards, in the order in which people need them, and the metrics that none of them shows."""

from __future__ import annotations

from collections.abc import Mapping

from ducklake_streaming.metrics.declared import Metric
from grafana.generator.ingest import INGEST, LATENCY
from grafana.generator.inputs import CHANGE_FEED, KAFKA
from grafana.generator.lake import CATALOG, INLINING, MAINTENANCE
from grafana.generator.overview import OVERVIEW
from grafana.generator.process import PROCESS
from grafana.generator.values import Dashboard

DASHBOARDS: tuple[Dashboard, ...] = (
    OVERVIEW,
    INGEST,
    LATENCY,
    INLINING,
    CATALOG,
    CHANGE_FEED,
    MAINTENANCE,
    KAFKA,
    PROCESS,
)

# Each with the reason. Empty today: every metric is on a panel.
NOT_SHOWN: Mapping[Metric, str] = {}

# What queries may name besides declared metrics: Prometheus' own, prometheus_client's, and our recording rules.
OTHER_METRICS = frozenset(
    {
        "ALERTS",
        "up",
        "scrape_duration_seconds",
        "process_cpu_seconds_total",
        "process_max_fds",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
    }
)
