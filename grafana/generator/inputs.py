"""Dashboards of what pipelines read: change feeds and Kafka."""

from __future__ import annotations

from ducklake_streaming.metrics import declared as d
from grafana.generator.promql import increase, largest, rate, smallest, total
from grafana.generator.values import Dashboard, Look, Panel, Query, Row, Unit

_FEED = Row(
    "Consumers",
    (
        Panel(
            "Snapshots behind",
            "Snapshots that each consumer has yet to read.",
            (Query(largest(d.SOURCE_BEHIND_SNAPSHOTS, "consumer"), "{{consumer}}"),),
        ),
        Panel(
            "Seconds behind",
            "Age of the oldest snapshot that it has yet to read.",
            (Query(largest(d.SOURCE_BEHIND_SECONDS, "consumer"), "{{consumer}}"),),
            Unit.SECONDS,
        ),
        Panel(
            "Expiry margin",
            "History between the oldest snapshot and the consumer: at 0 it loses changes, or holds expiry back.",
            (Query(smallest(d.SOURCE_EXPIRY_MARGIN, "consumer"), "{{consumer}}"),),
            Unit.SECONDS,
        ),
    ),
)

_CHANGES = Row(
    "Changes",
    (
        Panel(
            "Changes read",
            "Per second, by type.",
            (Query(rate(d.SOURCE_ROWS, "pipeline", "cause"), "{{pipeline}}: {{cause}}"),),
            Unit.ROWS_PER_SECOND,
            Look.STACK,
            width=12,
        ),
        Panel(
            "Snapshots lost",
            "Snapshots that expired before they were read.",
            (Query(increase(d.SOURCE_LOST_SNAPSHOTS, "pipeline"), "{{pipeline}}"),),
            width=12,
        ),
    ),
)

CHANGE_FEED = Dashboard(
    "change-feed", "DuckLake streams: change feed", "Who reads changes, and how far.", (_FEED, _CHANGES)
)

_LAG = Row(
    "Lag",
    (
        Panel(
            "Records that wait, by topic",
            "Records that are not in the lake yet.",
            (Query(total(d.SINK_KAFKA_LAG, "pipeline", "topic"), "{{pipeline}}: {{topic}}"),),
            width=12,
        ),
        Panel(
            "Records that wait, by partition",
            "One that grows alone has a key with most of the records, or a broker that is slow.",
            (Query(largest(d.SINK_KAFKA_LAG, "topic", "partition"), "{{topic}}-{{partition}}"),),
            width=12,
        ),
        Panel(
            "Records committed",
            "Rows per second, beside what Spark reads.",
            (
                Query(rate(d.SINK_INPUT_ROWS, "pipeline"), "{{pipeline}}: read"),
                Query(rate(d.SINK_ROWS, "pipeline"), "{{pipeline}}: committed"),
            ),
            Unit.ROWS_PER_SECOND,
            width=12,
        ),
        Panel(
            "Records that were gone",
            "Deleted by retention, or with their topic, before they were read; since the job has started.",
            (
                Query(
                    total(d.SINK_KAFKA_MISSING, "pipeline", "topic", "partition"),
                    "{{pipeline}}: {{topic}}-{{partition}}",
                ),
            ),
            width=12,
        ),
    ),
)

KAFKA = Dashboard("kafka", "DuckLake streams: Kafka", "What waits in topics.", (_LAG,))
