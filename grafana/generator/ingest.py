"""Dashboards of what pipelines write: health of the ingest, and where the time of a batch goes."""

from __future__ import annotations

from ducklake_streaming.metrics import declared as d
from grafana.generator.promql import age, is_well, largest, mean, quantile, rate
from grafana.generator.values import Dashboard, Look, Panel, Query, Row, Unit

_THROUGHPUT = Row(
    "Throughput",
    (
        Panel(
            "Rows committed",
            "Rows per second by table, without dead letters.",
            (Query(rate(d.SINK_ROWS, "pipeline", "table"), "{{pipeline}}: {{table}}"),),
            Unit.ROWS_PER_SECOND,
            Look.STACK,
            width=12,
        ),
        Panel(
            "Rows read",
            "Rows per second that Spark has read for batches, good and bad.",
            (Query(rate(d.SINK_INPUT_ROWS, "pipeline"), "{{pipeline}}"),),
            Unit.ROWS_PER_SECOND,
            width=12,
        ),
        Panel(
            "Bytes of data files",
            "Bytes per second that batches have written to files.",
            (Query(rate(d.SINK_BYTES, "pipeline", "table"), "{{pipeline}}: {{table}}"),),
            Unit.BYTES_PER_SECOND,
            width=12,
        ),
        Panel(
            "Data files",
            "Files per second that batches have written. Many mean small ones: let more rows be inlined.",
            (Query(rate(d.SINK_FILES, "pipeline", "table"), "{{pipeline}}: {{table}}"),),
            Unit.PER_SECOND,
            width=12,
        ),
    ),
)

_BATCHES = Row(
    "Batches",
    (
        Panel(
            "Batches by outcome",
            "Per second: committed, replayed (the ledger had them), empty, failed, stopped.",
            (Query(rate(d.SINK_BATCHES, "pipeline", "outcome"), "{{pipeline}}: {{outcome}}"),),
            Unit.PER_SECOND,
        ),
        Panel(
            "Failures by cause",
            "Per second: catalog, storage, data, fenced, lost, other.",
            (Query(rate(d.SINK_FAILURES, "pipeline", "cause"), "{{pipeline}}: {{cause}}"),),
            Unit.PER_SECOND,
        ),
        Panel(
            "Dead letters by cause",
            "Per second. `ducklake-stream dead-letters list` shows them with their reasons.",
            (Query(rate(d.SINK_DEAD_LETTERS, "pipeline", "cause"), "{{pipeline}}: {{cause}}"),),
            Unit.PER_SECOND,
        ),
    ),
)

_UPSERTS = Row(
    "Changes applied by key",
    (
        Panel(
            "Changes by outcome",
            "Per second: inserted, updated, deleted, truncated; and those that changed nothing: unchanged, superseded, "
            "late.",
            (Query(rate(d.SINK_UPSERT_ROWS, "pipeline", "outcome"), "{{pipeline}}: {{outcome}}"),),
            Unit.PER_SECOND,
        ),
        Panel(
            "Files searched for keys",
            "Per second. More than a few for each batch: the keys are spread over all files.",
            (Query(rate(d.SINK_UPSERT_FILES, "pipeline", "table"), "{{pipeline}}: {{table}}"),),
            Unit.PER_SECOND,
        ),
    ),
)

_FRESHNESS = Row(
    "Freshness and state",
    (
        Panel(
            "Event-time lag",
            "Age of the newest record of the last batch when it was committed.",
            (Query(largest(d.SINK_EVENT_TIME_LAG, "pipeline"), "{{pipeline}}"),),
            Unit.SECONDS,
        ),
        Panel(
            "Since the last commit",
            "And three times the trigger, beyond which a pipeline with lag is late.",
            (
                Query(age(d.SINK_LAST_COMMIT, "pipeline"), "{{pipeline}}"),
                Query(f"3 * {largest(d.SINK_TRIGGER, 'pipeline')}", "{{pipeline}}: 3 triggers"),
            ),
            Unit.SECONDS,
        ),
        Panel(
            "Since the last progress",
            "A query that is alive reports every ten seconds at least, with rows or none, unless a batch takes long.",
            (Query(age(d.SINK_LAST_PROGRESS, "pipeline"), "{{pipeline}}"),),
            Unit.SECONDS,
        ),
        Panel(
            "Running",
            "Whether the query of each pipeline runs, or has ended as told.",
            (Query(is_well("pipeline"), "{{pipeline}}"),),
            look=Look.NUMBER,
            width=12,
            good_text="is well",
            bad_text="is dead",
        ),
        Panel(
            "Fenced",
            "1: another run has taken over the stream. This one has stopped.",
            (Query(largest(d.SINK_FENCED, "pipeline"), "{{pipeline}}"),),
            look=Look.NUMBER,
            width=12,
            bad_from=1,
        ),
    ),
)

INGEST = Dashboard(
    "ingest", "DuckLake streams: ingest health", "What pipelines write.", (_THROUGHPUT, _BATCHES, _UPSERTS, _FRESHNESS)
)

_PHASES = Row(
    "Phases of a batch",
    tuple(
        Panel(
            f"{phase.capitalize()}: {told}",
            text,
            tuple(
                Query(quantile(share, d.SINK_PHASE_SECONDS, "pipeline", phase=phase), f"{{{{pipeline}}}}: {name}")
                for share, name in ((0.5, "half"), (0.95, "95 of 100"), (0.99, "99 of 100"))
            ),
            Unit.SECONDS,
            width=12,
        )
        for phase, told, text in (
            ("total", "a whole batch", "From Spark's call to the end of the commit."),
            ("collect", "rows to the driver", "Spark's own work: reading, transforming, sending rows to the driver."),
            ("write", "files", "Writing data files, here or on executors. Small batches write none."),
            ("commit", "the transaction", "From its first attempt to its end. Slow: the catalog, or many writers."),
        )
    ),
)

_SHARES = Row(
    "Where the time goes",
    (
        Panel(
            "Mean seconds by phase",
            "On top of each other; what is missing to the whole batch is Spark's overhead and ours.",
            (
                Query(mean(d.SINK_PHASE_SECONDS, "phase", phase="collect"), "{{phase}}"),
                Query(mean(d.SINK_PHASE_SECONDS, "phase", phase="write"), "{{phase}}"),
                Query(mean(d.SINK_PHASE_SECONDS, "phase", phase="commit"), "{{phase}}"),
            ),
            Unit.SECONDS,
            Look.STACK,
            width=12,
        ),
        Panel(
            "Flush, 95 of 100 take less",
            "Seconds of a flush, by table. It runs beside batches.",
            (Query(quantile(0.95, d.SINK_FLUSH_SECONDS, "table"), "{{table}}"),),
            Unit.SECONDS,
            width=12,
        ),
    ),
)

LATENCY = Dashboard(
    "latency", "DuckLake streams: latency by phase", "Where the time of a batch goes.", (_PHASES, _SHARES)
)
