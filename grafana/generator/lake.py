"""Dashboards of the lake itself: inlined rows and their flushes, the catalog, maintenance."""

from __future__ import annotations

from ducklake_streaming.metrics import declared as d
from grafana.generator.promql import age, increase, largest, quantile, rate, smallest
from grafana.generator.values import Dashboard, Look, Panel, Query, Row, Unit

_BACKLOG = Row(
    "Rows that wait for a flush",
    (
        Panel(
            "Inlined rows",
            "Rows in the catalog. A sink flushes at 100,000 by default.",
            (Query(largest(d.TABLE_INLINED_ROWS, "table"), "{{table}}"),),
        ),
        Panel(
            "Inlined bytes",
            "By the catalog's estimate. A sink flushes at 64 MB by default.",
            (Query(largest(d.TABLE_INLINED_BYTES, "table"), "{{table}}"),),
            Unit.BYTES,
        ),
        Panel(
            "Age of the oldest inlined row",
            "A sink flushes after 5 minutes by default.",
            (Query(largest(d.TABLE_INLINED_AGE, "table"), "{{table}}"),),
            Unit.SECONDS,
        ),
    ),
)

_FLUSHES = Row(
    "Flushes",
    (
        Panel(
            "Rows inlined and flushed",
            "Rows per second into the catalog, and out of it to files.",
            (
                Query(rate(d.SINK_INLINED_ROWS, "table"), "{{table}}: inlined"),
                Query(rate(d.SINK_FLUSHED_ROWS, "table"), "{{table}}: flushed"),
            ),
            Unit.ROWS_PER_SECOND,
            width=12,
        ),
        Panel(
            "Bytes flushed",
            "Bytes per second of files that flushes have written.",
            (Query(rate(d.SINK_FLUSHED_BYTES, "table"), "{{table}}"),),
            Unit.BYTES_PER_SECOND,
            width=12,
        ),
        Panel(
            "Seconds of a flush",
            "Half of them take less, and 95 of 100.",
            (
                Query(quantile(0.5, d.SINK_FLUSH_SECONDS, "table"), "{{table}}: half"),
                Query(quantile(0.95, d.SINK_FLUSH_SECONDS, "table"), "{{table}}: 95 of 100"),
            ),
            Unit.SECONDS,
            width=12,
        ),
        Panel(
            "Flushes that failed",
            "Rows stay in the catalog and can be read; the next flush takes them.",
            (Query(increase(d.SINK_FLUSH_FAILURES, "table"), "{{table}}"),),
            width=12,
        ),
    ),
)

INLINING = Dashboard(
    "inlining", "DuckLake streams: inlining and flush", "Rows kept in the catalog for a while.", (_BACKLOG, _FLUSHES)
)

_HEALTH = Row(
    "Health",
    (
        Panel(
            "Answers",
            "Whether the catalog answered the last question.",
            (Query(smallest(d.CATALOG_UP, "instance"), "{{instance}}"),),
            look=Look.NUMBER,
            width=12,
            good_text="answers",
            bad_text="is away",
        ),
        Panel(
            "Since it was last asked with success",
            "The poller asks every 30 seconds by default; what comes from it is as old as this.",
            (Query(age(d.CATALOG_LAST_POLL, "instance"), "{{instance}}"),),
            Unit.SECONDS,
            Look.NUMBER,
            width=12,
        ),
        Panel(
            "Outages",
            "Times that the catalog could not be reached and was waited for.",
            (Query(increase(d.CATALOG_OUTAGES, "instance"), "{{instance}}"),),
            width=12,
        ),
        Panel(
            "Questions, 95 of 100 take less",
            "Seconds of the poller's own questions.",
            (Query(quantile(0.95, d.CATALOG_QUERY_SECONDS, "operation"), "{{operation}}"),),
            Unit.SECONDS,
            width=12,
        ),
        Panel(
            "Attempts to commit",
            "Per second, and those that were repeated: another commit came first, or the catalog was away.",
            (
                Query(rate(d.SINK_COMMIT_ATTEMPTS, "pipeline"), "{{pipeline}}: attempts"),
                Query(rate(d.SINK_COMMIT_RETRIES, "pipeline", "cause"), "{{pipeline}}: {{cause}}"),
            ),
            Unit.PER_SECOND,
            width=12,
        ),
        Panel(
            "Commits whose answer was lost",
            "By what was found out: committed, repeated, unresolved.",
            (Query(increase(d.SINK_COMMITS_UNKNOWN, "pipeline", "outcome"), "{{pipeline}}: {{outcome}}"),),
            width=12,
        ),
    ),
)

_SIZE = Row(
    "Size",
    (
        Panel(
            "Snapshots",
            "Those that have not expired.",
            (Query(largest(d.CATALOG_SNAPSHOTS, "instance"), "{{instance}}"),),
        ),
        Panel(
            "Bytes of the catalog",
            "Its tables in its database.",
            (Query(largest(d.CATALOG_BYTES, "instance"), "{{instance}}"),),
            Unit.BYTES,
        ),
        Panel(
            "Age of the snapshots",
            "Of the oldest: how far back one can travel. Of the newest: how long nobody has committed.",
            (
                Query(age(d.CATALOG_OLDEST_SNAPSHOT, "instance"), "{{instance}}: oldest"),
                Query(age(d.CATALOG_LAST_SNAPSHOT, "instance"), "{{instance}}: newest"),
            ),
            Unit.SECONDS,
        ),
    ),
)

CATALOG = Dashboard("catalog", "DuckLake streams: catalog", "The database behind the lake.", (_HEALTH, _SIZE))

_RUNS = Row(
    "Runs",
    (
        Panel(
            "Since the last success",
            "Of each operation, by whomever it was run.",
            (Query(age(d.MAINTENANCE_LAST_SUCCESS, "operation"), "{{operation}}"),),
            Unit.SECONDS,
            Look.NUMBER,
            width=12,
        ),
        Panel(
            "Since the last run",
            "And how often the job file asks for it.",
            (
                Query(age(d.MAINTENANCE_LAST_RUN, "operation"), "{{operation}}"),
                Query(largest(d.MAINTENANCE_EVERY, "instance"), "asked for every"),
            ),
            Unit.SECONDS,
            Look.NUMBER,
            width=12,
        ),
        Panel(
            "Runs by outcome",
            "How many there were in the window of a point.",
            (Query(increase(d.MAINTENANCE_RUNS, "operation", "outcome"), "{{operation}}: {{outcome}}"),),
            width=12,
        ),
        Panel(
            "Time it takes",
            "Seconds of work per second.",
            (Query(rate(d.MAINTENANCE_SECONDS, "operation"), "{{operation}}"),),
            Unit.SHARE,
            Look.STACK,
            width=12,
        ),
    ),
)

_FILES = Row(
    "What it keeps small",
    (
        Panel(
            "Data files",
            "Live data files, by table.",
            (Query(largest(d.TABLE_DATA_FILES, "table"), "{{table}}"),),
        ),
        Panel(
            "Small files",
            "Live data files that a merge would take.",
            (Query(largest(d.TABLE_SMALL_FILES, "table"), "{{table}}"),),
        ),
        Panel(
            "Bytes of data files",
            "By table.",
            (Query(largest(d.TABLE_FILE_BYTES, "table"), "{{table}}"),),
            Unit.BYTES,
        ),
        Panel("Rows", "By table.", (Query(largest(d.TABLE_ROWS, "table"), "{{table}}"),)),
        Panel(
            "Delete files",
            "Live delete files: a rewrite removes them.",
            (Query(largest(d.TABLE_DELETE_FILES, "table"), "{{table}}"),),
        ),
        Panel(
            "Deleted rows in files",
            "Rows of live data files that readers have to pass over.",
            (Query(largest(d.TABLE_DELETED_ROWS, "table"), "{{table}}"),),
        ),
    ),
)

MAINTENANCE = Dashboard(
    "maintenance", "DuckLake streams: maintenance", "Flush, merge, rewrite, expire, clean up.", (_RUNS, _FILES)
)
