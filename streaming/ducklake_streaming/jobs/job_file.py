"""Reads a job file; every mistake is told at once. Runs on the driver, before Spark starts."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from ducklake_core.errors import InvalidInput
from ducklake_streaming.jobs.metrics_settings import MetricsSettings
from ducklake_streaming.jobs.paths import with_full_paths
from ducklake_streaming.jobs.references import Redactor, Resolver
from ducklake_streaming.jobs.settings import Job


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job file without mistakes; `secrets` are the values of its references, which nothing may show."""

    path: Path
    job: Job
    secrets: tuple[str, ...] = field(repr=False)

    @property
    def redactor(self) -> Redactor:
        return Redactor(self.secrets)

    def with_metrics_at(self, place: str | None) -> LoadedJob:
        """Return the job with its metrics served at `host:port`, whatever the file says; None: as it says."""
        if place is None:
            return self
        metrics = (self.job.metrics or MetricsSettings()).served_at(place)
        return replace(self, job=self.job.model_copy(update={"metrics": metrics}))


def load_job(path: Path, environment: Mapping[str, str] = os.environ) -> LoadedJob:
    """Return the job; raise InvalidInput that lists every mistake, each with the file and the key."""
    resolver = Resolver(path.absolute().parent, environment)
    found = with_full_paths(resolver.resolve(_read(path)), resolver.folder)
    told = {key: [f"{key}: {problem}" for problem in problems] for key, problems in resolver.problems.items()}
    if _is_nameless(found):
        told["pipeline"] = ["pipeline: a pipeline has a name: write [pipeline.NAME], [pipeline.NAME.input] and so on"]
    job: Job | None = None
    others: list[str] = []
    try:
        job = Job.parse(found)
    except InvalidInput as error:
        others = [problem for problem in error.problems if not _is_about(problem, told)]
    problems = [*chain.from_iterable(told.values()), *others, *_shared(found)]
    if job is None or problems:
        redactor = Redactor(resolver.secrets)
        raise _refusal([redactor.redact(f"{path}: {problem}") for problem in problems])
    return LoadedJob(path, job, tuple(resolver.secrets))


def _read(path: Path) -> dict[str, Any]:  # Any: whatever TOML may hold
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise _refusal([f"{path}: the file cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise _refusal([f"{path}: the file is no text in UTF-8"]) from None
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at (line \d+, column \d+|end of document)\)", str(error))
        told = re.sub(r" \(at [^)]*\)$", "", str(error))
        raise _refusal([f"{path}: {place[1] if place else 'TOML'}: {told}"]) from None


def _refusal(problems: list[str]) -> InvalidInput:
    return InvalidInput("\n".join(problems), problems=problems)


def _is_about(problem: str, keys: Mapping[str, object]) -> bool:
    """Tell whether a mistake is about what was told already."""
    return any(re.match(rf"{re.escape(key)}[ :.]", problem) for key in keys)


def _is_nameless(found: Mapping[str, Any]) -> bool:  # Any: see _read
    """Tell whether keys of a pipeline stand where the names of pipelines should."""
    pipelines = found.get("pipeline")
    return isinstance(pipelines, Mapping) and not isinstance(pipelines.get("checkpoint", {}), Mapping)


def _shared(found: Mapping[str, Any]) -> Iterator[str]:  # Any: see _read
    """Yield what two pipelines have in common and may not."""
    pipelines = found["pipeline"] if isinstance(found.get("pipeline"), Mapping) else {}
    for key in ("checkpoint", "stream", "input.consumer_id", "input.schema_tracking_location"):
        owners: dict[str, str] = {}
        for name, pipeline in pipelines.items():
            value = _value_at(pipeline, key) or (name if key == "stream" else None)
            if isinstance(value, str) and owners.setdefault(value.rstrip("/"), name) != name:
                yield f"pipeline.{name}.{key} is that of pipeline.{owners[value.rstrip('/')]}: each needs its own"


def _value_at(value: Any, key: str) -> Any:  # Any: see _read
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
