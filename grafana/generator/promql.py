"""Queries over declared metrics, with the dashboard's variables in the place of labels that a metric has."""

from __future__ import annotations

from ducklake_streaming.metrics.declared import PIPELINE, SINK_ENDED, SINK_RUNNING, TABLE, Metric

RATE_WINDOW = "$__rate_interval"  # Grafana's: at least four scrapes, at least one step of the plot
_VARIABLES = (PIPELINE, TABLE)


def series(metric: Metric, suffix: str = "", **where: str) -> str:
    """Return the metric's series of the chosen instances, pipelines and tables. `where`: labels of one value."""
    chosen = ["instance", *(label for label in _VARIABLES if label in metric.labels)]
    filters = [f'{label}=~"${label}"' for label in chosen] + [f'{label}="{value}"' for label, value in where.items()]
    return f"{metric.name}{suffix}{{{','.join(filters)}}}"


def rate(metric: Metric, *by: str, **where: str) -> str:
    """Return how fast a counter grows, per second."""
    return f"sum{_by(by)} (rate({series(metric, **where)}[{RATE_WINDOW}]))"


def increase(metric: Metric, *by: str, **where: str) -> str:
    """Return by how much a counter has grown in the window of one point."""
    return f"sum{_by(by)} (increase({series(metric, **where)}[{RATE_WINDOW}]))"


def total(metric: Metric, *by: str, **where: str) -> str:
    return f"sum{_by(by)} ({series(metric, **where)})"


def largest(metric: Metric, *by: str, **where: str) -> str:
    """Return the largest value: two jobs on one lake both tell how it is."""
    return f"max{_by(by)} ({series(metric, **where)})"


def smallest(metric: Metric, *by: str, **where: str) -> str:
    return f"min{_by(by)} ({series(metric, **where)})"


def is_well(*by: str) -> str:
    """Return 1 where all queries run or have ended as told, else 0."""
    return f"min{_by(by)} ({series(SINK_RUNNING)} + {series(SINK_ENDED)})"


def age(metric: Metric, *by: str, **where: str) -> str:
    """Return how long ago a time was, in seconds."""
    return f"time() - {largest(metric, *by, **where)}"


def quantile(share: float, metric: Metric, *by: str, **where: str) -> str:
    """Return a quantile of a histogram."""
    buckets = f"rate({series(metric, '_bucket', **where)}[{RATE_WINDOW}])"
    return f"histogram_quantile({share}, sum{_by(('le', *by))} ({buckets}))"


def mean(metric: Metric, *by: str, **where: str) -> str:
    """Return the mean of a histogram."""
    parts = [f"sum{_by(by)} (rate({series(metric, end, **where)}[{RATE_WINDOW}]))" for end in ("_sum", "_count")]
    return " / ".join(parts)


def _by(labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(labels)})" if labels else ""
