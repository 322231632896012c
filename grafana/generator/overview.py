"""The dashboard to look at first: is everything well, and if not, where."""

from __future__ import annotations

from ducklake_streaming.metrics import declared as d
from grafana.generator.promql import age, is_well, largest, quantile, rate, smallest, total
from grafana.generator.values import Dashboard, Look, Panel, Query, Row, Unit

_STATE = Row(
    "Is it well?",
    (
        Panel(
            "Pipelines",
            "Whether the query of each pipeline runs, or has ended as told.",
            (Query(is_well("pipeline"), "{{pipeline}}"),),
            look=Look.NUMBER,
            width=6,
            good_text="is well",
            bad_text="is dead",
        ),
        Panel(
            "Catalog",
            "Whether the catalog answered the last question.",
            (Query(smallest(d.CATALOG_UP, "instance"), "{{instance}}"),),
            look=Look.NUMBER,
            width=4,
            good_text="answers",
            bad_text="is away",
        ),
        Panel(
            "Targets",
            "Whether Prometheus can read the metrics of each job.",
            (Query('min by (instance) (up{job=~"ducklake.*",instance=~"$instance"})', "{{instance}}"),),
            look=Look.NUMBER,
            width=4,
            good_text="answers",
            bad_text="is down",
        ),
        Panel(
            "Since the last commit",
            "Seconds since a batch of the pipeline was committed. An idle topic makes this grow, too: see the lag.",
            (Query(age(d.SINK_LAST_COMMIT, "pipeline"), "{{pipeline}}"),),
            Unit.SECONDS,
            Look.NUMBER,
            width=6,
        ),
        Panel(
            "Versions",
            "What runs.",
            (Query(largest(d.BUILD_INFO, "version", "spark", "python"), "{{version}}, Spark {{spark}}, {{python}}"),),
            look=Look.NUMBER,
            width=4,
            good_text="runs",
            bad_text="-",
        ),
    ),
)

_FLOW = Row(
    "What flows",
    (
        Panel(
            "Rows committed",
            "Rows per second that each pipeline has committed.",
            (Query(rate(d.SINK_ROWS, "pipeline"), "{{pipeline}}"),),
            Unit.ROWS_PER_SECOND,
        ),
        Panel(
            "Records that wait in Kafka",
            "Records that are not in the lake yet, of all partitions.",
            (Query(total(d.SINK_KAFKA_LAG, "pipeline"), "{{pipeline}}"),),
        ),
        Panel(
            "Batch, 95 of 100 take less",
            "Seconds of a whole batch.",
            (Query(quantile(0.95, d.SINK_PHASE_SECONDS, "pipeline", phase="total"), "{{pipeline}}"),),
            Unit.SECONDS,
        ),
        Panel(
            "Batches that failed",
            "By cause; each is tried again or ends its pipeline.",
            (Query(rate(d.SINK_FAILURES, "pipeline", "cause"), "{{pipeline}}: {{cause}}"),),
            Unit.PER_SECOND,
        ),
        Panel(
            "Dead letters",
            "Records kept aside, by cause.",
            (Query(rate(d.SINK_DEAD_LETTERS, "pipeline", "cause"), "{{pipeline}}: {{cause}}"),),
            Unit.PER_SECOND,
        ),
        Panel(
            "Rows that wait for a flush",
            "Inlined rows, by table.",
            (Query(largest(d.TABLE_INLINED_ROWS, "table"), "{{table}}"),),
        ),
    ),
)

_PROMISES = Row(
    "What is promised",
    (
        Panel(
            "Stale time of the last hour",
            "Share of the last hour in which a pipeline had work and was late with it: the objective allows 1 %.",
            (Query('ducklake:stale:ratio1h{instance=~"$instance",pipeline=~"$pipeline"}', "{{pipeline}}"),),
            Unit.SHARE,
            bad_from=0.01,
        ),
        Panel(
            "Records that did not arrive, last hour",
            "Share of records that are dead letters or were lost: the objective allows 0.1 %.",
            (Query('ducklake:inexact:ratio1h{instance=~"$instance",pipeline=~"$pipeline"}', "{{pipeline}}"),),
            Unit.SHARE,
            bad_from=0.001,
        ),
        Panel(
            "Alerts",
            "Alerts that fire or are about to, by name.",
            (
                Query(
                    'count by (alertname, alertstate) (ALERTS{alertname=~"DuckLake.*"})',
                    "{{alertname}} ({{alertstate}})",
                ),
            ),
        ),
    ),
)

OVERVIEW = Dashboard(
    "overview", "DuckLake streams: overview", "Begin here: is everything well?", (_STATE, _FLOW, _PROMISES)
)
