"""The dashboard of the driver: its JVM and its Python process."""

from __future__ import annotations

from ducklake_streaming.metrics import declared as d
from grafana.generator.promql import RATE_WINDOW, largest, rate
from grafana.generator.values import Dashboard, Look, Panel, Query, Row, Unit


def _own(name: str) -> str:
    return f'{name}{{instance=~"$instance",job=~"ducklake.*"}}'


_JVM = Row(
    "JVM of the driver",
    (
        Panel(
            "Memory",
            "By area, and how much the heap may take.",
            (
                Query(largest(d.JVM_MEMORY, "instance", "area"), "{{instance}}: {{area}}"),
                Query(largest(d.JVM_MEMORY_MAX, "instance", "area"), "{{instance}}: {{area}}, at most"),
            ),
            Unit.BYTES,
        ),
        Panel(
            "Garbage collection",
            "Seconds of collecting per second: from a tenth on, the heap is too small.",
            (Query(rate(d.JVM_GC_SECONDS, "instance"), "{{instance}}"),),
            Unit.SHARE,
        ),
        Panel("Threads", "Threads of the JVM.", (Query(largest(d.JVM_THREADS, "instance"), "{{instance}}"),)),
    ),
)

# These come from prometheus_client itself.
_PYTHON = Row(
    "Python process of the driver",
    (
        Panel(
            "CPU",
            "Cores that it uses.",
            (Query(f"rate({_own('process_cpu_seconds_total')}[{RATE_WINDOW}])", "{{instance}}"),),
            width=6,
        ),
        Panel(
            "Memory",
            "Resident memory, without the JVM's.",
            (Query(_own("process_resident_memory_bytes"), "{{instance}}"),),
            Unit.BYTES,
            width=6,
        ),
        Panel(
            "Open files",
            "And how many it may open.",
            (
                Query(_own("process_open_fds"), "{{instance}}"),
                Query(_own("process_max_fds"), "{{instance}}: at most"),
            ),
            width=6,
        ),
        Panel(
            "Seconds of a scrape",
            "How long Prometheus waits for the metrics.",
            (Query(_own("scrape_duration_seconds"), "{{instance}}"),),
            Unit.SECONDS,
            width=6,
        ),
        Panel(
            "Running since",
            "A job that starts again and again is one that fails.",
            (Query(f"time() - {_own('process_start_time_seconds')}", "{{instance}}"),),
            Unit.SECONDS,
            Look.NUMBER,
            width=24,
        ),
    ),
)

PROCESS = Dashboard("process", "DuckLake streams: JVM and process", "The driver itself.", (_JVM, _PYTHON))
