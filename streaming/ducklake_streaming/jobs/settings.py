"""What a job file may say, as frozen values: `Job` is the whole file. Runs on the driver, before Spark starts.

Each key is declared once, with its default and its meaning; the sink's arguments and the source's options are derived
from the sink and the source. `jobs/job_file.py` reads a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, TypeAlias

from ducklake_core.errors import InvalidInput
from ducklake_core.settings import Catalog, Duration, Flag, OptionalText, Text, check_catalog, setting
from ducklake_core.storage_settings import StorageSettings
from ducklake_sinks.routes import route_key
from ducklake_streaming.jobs.debezium_changes import envelope_rules
from ducklake_streaming.jobs.input_settings import DuckLakeInput, FilesInput, Input, KafkaInput, RateInput
from ducklake_streaming.jobs.keys import Keys
from ducklake_streaming.jobs.literal_secrets import literal_password_of_catalog
from ducklake_streaming.jobs.log_settings import LogSettings
from ducklake_streaming.jobs.maintenance_settings import MaintenanceSettings
from ducklake_streaming.jobs.metrics_settings import MetricsSettings
from ducklake_streaming.jobs.sink_settings import RouteExpression, SinkSettings
from ducklake_streaming.jobs.spark_settings import AppName, Master, SparkOptions
from ducklake_streaming.jobs.sql_texts import Query
from ducklake_streaming.jobs.tracing_settings import TracingSettings
from ducklake_streaming.jobs.values import Trigger, TriggerSetting, one_of

__all__ = [
    "CatalogSettings",
    "DuckLakeInput",
    "FilesInput",
    "Input",
    "Job",
    "JobOptions",
    "KafkaInput",
    "LogSettings",
    "MaintenanceSettings",
    "MetricsSettings",
    "Pipeline",
    "RateInput",
    "RouteExpression",
    "SinkSettings",
    "SparkSettings",
    "TracingSettings",
    "Transform",
    "TriggerSetting",
]

OnFailure: TypeAlias = Annotated[str, *one_of("stop", "continue")]


class CatalogSettings(Keys):
    """`[catalog]`: the lake that every pipeline writes to."""

    url: Catalog = setting(
        "a URL such as `postgresql://lake@db/lake` or `sqlite:///lake.sqlite`, or the string of DuckDB's ATTACH"
    )
    data_path: OptionalText = setting(
        "where files go if the job has to create the lake; without it, the lake must exist", default=None
    )
    override_data_path: Flag = setting(
        "take `data_path` though the catalog has another one: its files were moved", default=False
    )
    storage: StorageSettings | None = setting(
        "how an S3 store is reached, as a table `[catalog.storage]`: see [keep data on S3](object-storage.md)",
        default=None,
    )
    metadata_schema: OptionalText = setting("the PostgreSQL schema of the catalog's tables", default=None)
    timeout: Duration = setting(
        "how long to wait for a catalog that cannot be reached", default=timedelta(minutes=2), shown='`"2m"`'
    )

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: each is of its own type
        if "url" in right:
            try:
                check_catalog(right["url"], right.get("metadata_schema"))
            except InvalidInput as error:
                yield str(error)
            if literal_password_of_catalog(right["url"]):
                yield f"url {literal_password_of_catalog(right['url'])}"


class SparkSettings(Keys):
    """`[spark]`: the one Spark application that runs all pipelines."""

    master: Master = setting(
        "where it runs: `local[2]`, `local[*]`, `spark://host:7077`, `yarn`, `k8s://…`", default="local[*]"
    )
    app_name: AppName = setting("its name in Spark's UI", default="ducklake-stream")
    settings: SparkOptions = setting(
        "Spark's own settings; Spark shows them in its UI, so they hold no secrets", default={}
    )
    jars: OptionalText = setting(
        "a folder of jars; default: what the inputs need, by `spark.jars.packages`", default=None
    )


class JobOptions(Keys):
    """`[job]`: the process."""

    on_failure: OnFailure = setting(
        'what the others do when a pipeline fails: "stop" after their running batch, or "continue"', default="stop"
    )


class Transform(Keys):
    """`[pipeline.NAME.transform]`: SQL of each batch."""

    sql: Query = setting("a query of the view `input`, which is one batch at a time")


class Pipeline(Keys):
    """`[pipeline.NAME]`: one query."""

    checkpoint: Text = setting("a folder for this pipeline alone, where Spark keeps how far it has read")
    trigger: Trigger = setting(
        'when the next batch begins: `"1 second"`, `"available now"` (all that is there, then end), '
        '`"as fast as possible"`',
        default=TriggerSetting(),
        shown='`"as fast as possible"`',
    )
    stream: OptionalText = setting("its name in the ledger; default: the pipeline's", default=None)
    input: Input = setting("where rows come from, by its kind")
    transform: Transform | None = setting("what becomes of them on the way", default=None)
    sink: SinkSettings = setting("where rows go, by its table")

    @property
    def applies_envelopes(self) -> bool:
        """Whether it leaves to us what envelopes of Debezium mean for its table."""
        is_debezium = isinstance(self.input, KafkaInput) and self.input.format == "debezium"
        return is_debezium and self.sink.mode == "upsert" and self.transform is None

    @property
    def routes_envelopes(self) -> bool:
        """Whether each topic of Debezium's is a table of its own, with its own columns."""
        source = self.input
        has_columns = isinstance(source, KafkaInput) and (source.registry is not None or bool(source.schema_by_topic))
        return self.applies_envelopes and self.sink.route is not None and has_columns

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: see CatalogSettings
        source, sink = right.get("input"), right.get("sink")
        if isinstance(source, KafkaInput) and sink is not None and not right.get("transform"):
            yield from _problems_of_envelopes(source, sink)
        if isinstance(source, KafkaInput) and source.dead_letter_topic and sink and sink.on_bad_row != "quarantine":
            yield "input.dead_letter_topic needs sink.on_bad_row = 'quarantine': else a bad record fails the batch"
        if not isinstance(source, DuckLakeInput) or source.catalog is not None or sink is None or sink.table is None:
            return
        if route_key(sink.table) == route_key(source.table):
            yield f"it would read what it writes: input.table and sink.table are both {sink.table!r}"


def _envelope_rules(pipeline: Pipeline) -> dict[str, Any]:  # Any: each argument is of its own type
    applies = isinstance(pipeline.input, KafkaInput) and pipeline.input.truncates == "apply"
    return envelope_rules(pipeline.sink.except_columns, applies_truncates=applies)


def _problems_of_envelopes(source: KafkaInput, sink: SinkSettings) -> Iterator[str]:
    if source.format != "debezium" or sink.mode != "upsert":
        return
    if source.schema_by_topic and sink.route is None:
        yield "input.schema_by_topic needs sink.route: it names the table of each topic"
    if not (source.schema_text or source.schema_file or source.registry or source.schema_by_topic):
        yield "input.schema is missing: changes of Debezium are applied by the columns of their rows, or give registry"
    if sink.stored_as_scd_type == 2:
        yield "sink.stored_as_scd_type = 2 needs transform.sql: an event of Debezium may leave out what a version needs"
    for name in ("apply_as_deletes", "apply_as_truncates"):
        if getattr(sink, name) is not None:
            yield f"sink.{name} needs transform.sql: without it the envelopes' op says what a change does"


class Job(Keys):
    """A job file."""

    words: ClassVar[Mapping[str, str]] = {
        "a group of settings": "a table of keys",
        "True or False": "true or false",
        ", or None": "",
        " is True,": " is true,",
        " is False,": " is false,",
    }

    catalog: CatalogSettings = setting("the lake that every pipeline writes to, by its url")
    spark: SparkSettings = setting("how Spark is started", default=SparkSettings())
    job: JobOptions = setting("the process", default=JobOptions())
    log: LogSettings = setting("what it says of itself", default=LogSettings())
    tracing: TracingSettings | None = setting("where spans of its batches go", default=None)
    maintenance: MaintenanceSettings | None = setting("what keeps the lake fast meanwhile", default=None)
    metrics: MetricsSettings | None = setting("where Prometheus and probes may ask", default=None)
    pipeline: Mapping[Text, Pipeline] = setting("what runs: a table [pipeline.NAME] for each pipeline")

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: see CatalogSettings
        if right.get("pipeline") == {}:
            yield "pipeline is empty: it needs a table such as [pipeline.orders]"

    def sink_arguments(self, name: str) -> dict[str, Any]:  # Any: each argument is of its own type
        """Return the arguments of a pipeline's `DuckLakeSink`, but its recorder."""
        pipeline, catalog = self.pipeline[name], self.catalog
        return {
            "catalog": catalog.url,
            "data_path": catalog.data_path,
            "override_data_path": catalog.override_data_path,
            "storage": catalog.storage,
            "metadata_schema": catalog.metadata_schema,
            "catalog_timeout": catalog.timeout,
            "stream": pipeline.stream or name,
            **pipeline.sink.arguments(),
            **(_envelope_rules(pipeline) if pipeline.applies_envelopes else {}),
        }
