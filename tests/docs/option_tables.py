"""The tables of options in the docs, made from the code: `make docs` writes them, a test compares them."""

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from ducklake_core.maintenance.doctor.kinds import KINDS
from ducklake_core.settings import Settings, shown_default
from ducklake_core.storage_settings import StorageSettings
from ducklake_sinks import FlushPolicy
from ducklake_sinks.format.options import WriteOptions
from ducklake_sinks.options import SinkOptions
from ducklake_sources.options import FOR_CHANGES_ONLY, FOR_TABLES_ONLY, SourceOptions
from ducklake_streaming.formats.registry.access import RegistryOptions
from ducklake_streaming.jobs.json_schema import schema_text
from ducklake_streaming.jobs.keys import Keys
from ducklake_streaming.jobs.settings import (
    CatalogSettings,
    FilesInput,
    JobOptions,
    KafkaInput,
    LogSettings,
    MaintenanceSettings,
    MetricsSettings,
    Pipeline,
    RateInput,
    SinkSettings,
    SparkSettings,
    TracingSettings,
    Transform,
)
from ducklake_streaming.metrics import declared
from tests.docs.log_events import with_events

DOCS = Path(__file__).parents[2] / "docs"
_END = "|---|---|---|\n"

# Of each page: the heading of a table's first column, whose settings it has, and which of them are left out.
TABLES: list[tuple[str, str, type[Settings], frozenset[str]]] = [
    ("write-a-stream.md", "option", SinkOptions, frozenset()),
    ("write-a-stream.md", "threshold", FlushPolicy, frozenset()),
    ("write-dataframes.md", "option", WriteOptions, frozenset()),
    ("change-feed.md", "option", SourceOptions, FOR_TABLES_ONLY),
    ("read-tables.md", "option", SourceOptions, FOR_CHANGES_ONLY),
    ("object-storage.md", "setting", StorageSettings, frozenset()),
    ("jobs.md", "`[catalog]`", CatalogSettings, frozenset()),
    ("jobs.md", "`[spark]`", SparkSettings, frozenset()),
    ("jobs.md", "`[job]`", JobOptions, frozenset()),
    ("jobs.md", "`[log]`", LogSettings, frozenset()),
    ("jobs.md", "`[tracing]`", TracingSettings, frozenset()),
    ("jobs.md", "`[maintenance]`", MaintenanceSettings, frozenset()),
    ("jobs.md", "`[metrics]`", MetricsSettings, frozenset()),
    ("jobs.md", "`[pipeline.NAME]`", Pipeline, frozenset({"input", "transform", "sink"})),
    ("jobs.md", "of Kafka", KafkaInput, frozenset({"kind"})),
    ("jobs.md", "`registry_options`", RegistryOptions, frozenset()),
    ("jobs.md", "of files", FilesInput, frozenset({"kind"})),
    ("jobs.md", "of rate", RateInput, frozenset({"kind"})),
    ("jobs.md", "`[pipeline.NAME.transform]`", Transform, frozenset()),
    ("jobs.md", "`[pipeline.NAME.sink]`", SinkSettings, frozenset()),
]


def with_table(page: str, heading: str, kind: type[Settings], left_out: frozenset[str]) -> str:
    """Return the page with its table as the code has it."""
    head = f"| {heading} | default | |\n{_END}"
    before, rest = page.split(head)
    after = rest[rest.index("\n\n") + 1 :]
    return before + head + "".join(_rows(kind, left_out)) + after


def _rows(kind: type[Settings], left_out: frozenset[str]) -> list[str]:
    names = {name: field for name, field in kind.names().items() if name not in left_out}
    return [
        f"| `{name}` | {_default(kind, kind.model_fields[field])} | {kind.model_fields[field].description} |\n"
        for name, field in names.items()
    ]


def _default(kind: type[Settings], field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return shown_default(field) or (_in_toml(field.default) if issubclass(kind, Keys) else f"`{field.default!r}`")


def _in_toml(value: object) -> str:
    """Return a default as a job file has it."""
    return "none" if value is None or value in ((), {}) else f"`{json.dumps(value)}`"


FINDINGS = "| code | severity | what it is | what helps | repair |\n|---|---|---|---|---|\n"


def with_findings(page: str) -> str:
    """Return the page about the doctor with the table of what he finds."""
    before, rest = page.split(FINDINGS)
    rows = [
        f"| `{kind.code}` | {kind.severity} | {kind.what} | {kind.helps} | {'yes' if kind.can_repair else ''} |\n"
        for kind in KINDS.values()
    ]
    return before + FINDINGS + "".join(rows) + rest[rest.index("\n## ") :]


METRICS = "| metric | type | labels | |\n|---|---|---|---|\n"


def with_metrics(page: str) -> str:
    """Return the page about metrics with its tables: one for each group, by the second word of the names."""
    for group in dict.fromkeys(_group(metric) for metric in declared.METRICS):
        before, rest = page.split(f"<!-- {group} -->\n\n{METRICS}")
        rows = [_metric_row(metric) for metric in declared.METRICS if _group(metric) == group]
        page = f"{before}<!-- {group} -->\n\n{METRICS}{''.join(rows)}{rest[rest.index(chr(10) + chr(10)) + 1 :]}"
    return page


def _group(metric: declared.Metric) -> str:
    return metric.name.split("_")[1]


def _metric_row(metric: declared.Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |\n"


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page and what it should be."""
    for name in dict.fromkeys(table[0] for table in TABLES):
        page = (DOCS / name).read_text()
        for _, heading, kind, left_out in (table for table in TABLES if table[0] == name):
            page = with_table(page, heading, kind, left_out)
        yield DOCS / name, page


def written() -> Iterator[tuple[Path, str]]:
    """Yield each file that is made from the code, and what it should be."""
    yield from pages()
    yield DOCS / "job.schema.json", schema_text()
    yield DOCS / "check-a-lake.md", with_findings((DOCS / "check-a-lake.md").read_text())
    yield DOCS / "metrics.md", with_metrics((DOCS / "metrics.md").read_text())
    yield DOCS / "log-events.md", with_events((DOCS / "log-events.md").read_text())


if __name__ == "__main__":
    for path, text in written():
        path.write_text(text)
