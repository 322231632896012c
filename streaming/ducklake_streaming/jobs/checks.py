"""Looks whether a job could run: each part that it needs, one after another, without Spark. Changes nothing.

A check is a function that returns what it found, or raises what is wrong and what helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, assert_never

from ducklake_core import Lake
from ducklake_core.errors import DuckLakeError, NoLakeFound
from ducklake_core.files.storage import Storage
from ducklake_core.observe import NO_RECORDER
from ducklake_core.settings import shown_catalog
from ducklake_core.spec.paths import hide_password
from ducklake_core.storage_settings import storage_options
from ducklake_streaming.formats.registry.probe import probe
from ducklake_streaming.java import require_java
from ducklake_streaming.jobs.connector import check_connector
from ducklake_streaming.jobs.folders import check_folder, check_readable, is_local
from ducklake_streaming.jobs.hadoop_s3 import check_s3_address, is_s3
from ducklake_streaming.jobs.job_file import LoadedJob
from ducklake_streaming.jobs.job_lake import open_job_lake
from ducklake_streaming.jobs.job_tracing import require_sdk
from ducklake_streaming.jobs.settings import (
    CatalogSettings,
    DuckLakeInput,
    FilesInput,
    Job,
    KafkaInput,
    Pipeline,
    RateInput,
)
from ducklake_streaming.kafka.cluster import Cluster
from ducklake_streaming.kafka.errors import BrokerUnavailable, TopicNotFound

Check: TypeAlias = Callable[[], str]
WAIT_SECONDS = 5.0  # for a catalog or a broker: who asks sits in front of it


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found: `text` says it, and what helps where it is not right."""

    name: str
    is_ok: bool
    text: str


def run_checks(loaded: LoadedJob) -> Iterator[CheckResult]:
    """Yield the result of each check as soon as it is known; one that fails keeps no other from being run."""
    for name, check in _checks(loaded):
        try:
            result = CheckResult(name, is_ok=True, text=check())
        except (DuckLakeError, OSError) as error:
            result = CheckResult(name, is_ok=False, text=str(error))
        yield CheckResult(result.name, result.is_ok, loaded.redactor.redact(result.text))


def _checks(loaded: LoadedJob) -> Iterator[tuple[str, Check]]:
    job = loaded.job
    yield "file", lambda: f"{loaded.path}: {len(job.pipeline)} pipeline{'s' if len(job.pipeline) > 1 else ''}"
    yield "java", lambda: f"Java {require_java()}"
    yield "jars", partial(check_connector, job)
    yield "catalog", partial(_catalog, job.catalog, maintains=job.maintenance is not None)
    yield "data path", partial(_data_path, job.catalog)
    if job.tracing is not None:
        yield "tracing", lambda: f"OpenTelemetry {require_sdk()}"
    for name, pipeline in job.pipeline.items():
        yield f"{name}: checkpoint", partial(_checkpoint, pipeline.checkpoint, job)
        yield from ((f"{name}: {what}", check) for what, check in _input_checks(job, pipeline))


def _input_checks(job: Job, pipeline: Pipeline) -> Iterator[tuple[str, Check]]:
    match pipeline.input:
        case KafkaInput() as kafka:
            yield "topics", partial(_topics, kafka)
            if kafka.registry is not None:
                yield "registry", partial(_registry, kafka, kafka.registry)
        case FilesInput() as files:
            yield "files", partial(_files, files, job)
        case DuckLakeInput() as lake:
            yield "table", partial(_table, lake, job.catalog)
        case RateInput():
            return
        case other:
            assert_never(other)


# ---- the lake


def _open(catalog: CatalogSettings) -> Lake:
    return open_job_lake(catalog, WAIT_SECONDS, NO_RECORDER)


def _catalog(catalog: CatalogSettings, *, maintains: bool) -> str:
    """See that the lake is there, of a format that we write, and that we may; or that it can be made."""
    shown = shown_catalog(catalog.url)
    try:
        with _open(catalog) as lake:
            lake.check_rights(maintains=maintains)
            return f"{shown}: format {lake.database.version.text}, may be written to"
    except NoLakeFound:
        if catalog.data_path is None:
            raise
    Lake.check_can_create(
        catalog.url,
        catalog.data_path,
        metadata_schema=catalog.metadata_schema,
        catalog_timeout=WAIT_SECONDS,
        recorder=NO_RECORDER,
    )
    return f"{shown}: no lake yet, the first batch creates it"


def _data_path(catalog: CatalogSettings) -> str:
    """See that files can be written where the lake keeps them, or will."""
    try:
        with _open(catalog) as lake:
            path = lake.data_path
    except DuckLakeError:  # what is wrong with it the check of the catalog tells
        if catalog.data_path is None:
            raise
        path = catalog.data_path
    if is_local(path):
        check_folder(path)
    else:
        Storage.of(path, storage_options(catalog.storage)).check_writable()
    return f"{hide_password(path)} may be written to"


def _table(lake: DuckLakeInput, catalog: CatalogSettings) -> str:
    """See that the table is there whose changes are read."""
    named = catalog if lake.catalog is None else CatalogSettings(url=lake.catalog)
    with _open(named) as opened:
        return f"'{opened.table(lake.table).name}' in {shown_catalog(named.url)}"


# ---- places of files


def _checkpoint(path: str, job: Job) -> str:
    if is_s3(path):
        return check_s3_address(path, job)
    if not is_local(path):
        return f"{hide_password(path)}: not looked at, Spark alone can reach it"
    check_folder(path)
    return f"{path} may be written to"


def _files(files: FilesInput, job: Job) -> str:
    if is_s3(files.path):
        return check_s3_address(files.path, job)
    if not is_local(files.path):
        return f"{hide_password(files.path)}: not looked at, Spark alone can reach it"
    return check_readable(files.path)


# ---- Kafka


def _topics(kafka: KafkaInput) -> str:
    """See that a broker answers and each topic is there."""
    cluster = Cluster(kafka.servers, kafka.options, WAIT_SECONDS)
    pattern = kafka.topic_pattern
    try:
        names = kafka.topics if pattern is None else cluster.topic_names(pattern)
        cluster.check_reachable()
    except BrokerUnavailable as error:
        raise BrokerUnavailable(f"{error}; start it, or mend 'servers'") from error
    if not names:
        raise TopicNotFound(f"no topic at {kafka.servers} matches topic_pattern = '{pattern}': create one, or mend it")
    if kafka.dead_letter_topic is not None:
        _require_letter_topic(cluster, kafka.dead_letter_topic)
    topics = cluster.topics(names)
    cluster.latest(place for topic in topics for place in topic.places)  # that we may read them
    return ", ".join(f"{topic.name} ({_partitions(len(topic.partitions))})" for topic in topics)


def _require_letter_topic(cluster: Cluster, name: str) -> None:
    try:
        cluster.topics([name])
    except TopicNotFound as error:
        raise TopicNotFound(
            f"there is no topic '{name}' for dead letters: create it, or mend 'dead_letter_topic'"
        ) from error


def _registry(kafka: KafkaInput, url: str) -> str:
    """See that the registry answers and has the subjects; of topics that are named by a pattern, only if it says so."""
    named = kafka.registry_options.subject
    subjects = [one.strip() for one in named.split(",")] if named else [f"{topic}-value" for topic in kafka.topics]
    found = [probe(url, subject, kafka.registry_options) for subject in subjects]
    return "; ".join(found) or "not looked at: which subjects are needed, the topics will tell"


def _partitions(number: int) -> str:
    return f"{number} partition{'s' if number != 1 else ''}"
