"""What a job file may say, as frozen values: `Job` is the whole file. Runs on the driver, before Spark starts.

Each key is declared once, with its default and its meaning; the sink's arguments and the source's options are derived
from the sink and the source. `jobs/job_file.py` reads a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import Field

from ducklake_core.settings import Catalog, Duration, OptionalText, Settings, Text, setting
from ducklake_streaming.jobs.input_settings import DuckLakeInput, FilesInput, Input, KafkaInput, RateInput
from ducklake_streaming.jobs.sink_settings import RouteExpression, SinkSettings
from ducklake_streaming.jobs.values import Options, Trigger, TriggerSetting, one_of

__all__ = [
    "CatalogSettings",
    "DuckLakeInput",
    "FilesInput",
    "Input",
    "Job",
    "JobOptions",
    "KafkaInput",
    "Pipeline",
    "RateInput",
    "RouteExpression",
    "SinkSettings",
    "SparkSettings",
    "Transform",
    "TriggerSetting",
]

OnFailure: TypeAlias = Annotated[str, *one_of("stop", "continue")]


class CatalogSettings(Settings):
    """`[catalog]`: the lake that every pipeline writes to."""

    purpose: ClassVar[str] = "a catalog cannot be named"
    noun: ClassVar[str] = "key"

    url: Catalog = setting(
        "a URL such as `postgresql://lake@db/lake` or `sqlite:///lake.sqlite`, or the string of DuckDB's ATTACH"
    )
    data_path: OptionalText = setting(
        "where files go if the job has to create the lake; without it, the lake must exist", default=None
    )
    metadata_schema: OptionalText = setting("the PostgreSQL schema of the catalog's tables", default=None)
    timeout: Duration = setting(
        "how long to wait for a catalog that cannot be reached", default=timedelta(minutes=2), shown='`"2m"`'
    )


class SparkSettings(Settings):
    """`[spark]`: the one Spark application that runs all pipelines."""

    purpose: ClassVar[str] = "Spark cannot be started"
    noun: ClassVar[str] = "key"

    master: Text = setting("where it runs", default="local[*]")
    app_name: Text = setting("its name in Spark's UI", default="ducklake-stream")
    settings: Options = setting("Spark's own settings; Spark shows them in its UI, so they hold no secrets", default={})
    jars: OptionalText = setting(
        "a folder of jars; default: what the inputs need, by `spark.jars.packages`", default=None
    )


class JobOptions(Settings):
    """`[job]`: the process."""

    purpose: ClassVar[str] = "a job cannot be run"
    noun: ClassVar[str] = "key"

    on_failure: OnFailure = setting(
        'what the others do when a pipeline fails: "stop" after their running batch, or "continue"', default="stop"
    )


class Transform(Settings):
    """`[pipeline.NAME.transform]`: SQL of each batch."""

    purpose: ClassVar[str] = "a transform cannot be made"
    noun: ClassVar[str] = "key"

    sql: Text = setting("a query of the view `input`, which is one batch at a time")


class Pipeline(Settings):
    """`[pipeline.NAME]`: one query."""

    purpose: ClassVar[str] = "a pipeline cannot be run"
    noun: ClassVar[str] = "key"

    checkpoint: Text = setting("a folder for this pipeline alone, where Spark keeps how far it has read")
    trigger: Trigger = setting(
        'when the next batch begins: `"1 second"`, `"available now"` (all that is there, then end), '
        '`"as fast as possible"`',
        default=TriggerSetting(),
        shown='`"as fast as possible"`',
    )
    stream: OptionalText = setting("its name in the ledger; default: the pipeline's", default=None)
    input: Input = setting("where rows come from")
    transform: Transform | None = setting("what becomes of them", default=None)
    sink: SinkSettings = setting("where they go")


Pipelines: TypeAlias = Annotated[Mapping[Text, Pipeline], Field(min_length=1)]


class Job(Settings):
    """A job file."""

    purpose: ClassVar[str] = "a job cannot be run"
    noun: ClassVar[str] = "key"

    catalog: CatalogSettings = setting("the lake")
    spark: SparkSettings = setting("Spark", default=SparkSettings())
    job: JobOptions = setting("the process", default=JobOptions())
    pipeline: Pipelines = setting("what runs, by name")

    def sink_arguments(self, name: str) -> dict[str, Any]:  # Any: each argument is of its own type
        """Return the arguments of a pipeline's `DuckLakeSink`, but its recorder."""
        pipeline, catalog = self.pipeline[name], self.catalog
        return {
            "catalog": catalog.url,
            "data_path": catalog.data_path,
            "metadata_schema": catalog.metadata_schema,
            "catalog_timeout": catalog.timeout,
            "stream": pipeline.stream or name,
            **pipeline.sink.arguments(),
        }
