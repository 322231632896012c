"""Reads a job file; every mistake is told at once. Runs on the driver, before Spark starts."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ducklake_core.errors import InvalidInput
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


def load_job(path: Path, environment: Mapping[str, str] = os.environ) -> LoadedJob:
    """Return the job; raise InvalidInput that lists every mistake, each with the file and the key."""
    resolver = Resolver(path.absolute().parent, environment)
    found = resolver.resolve(_read(path))
    problems = [f"{key}: {told}" for key, all_told in resolver.problems.items() for told in all_told]
    problems += _shared(found)
    job: Job | None = None
    try:
        job = Job.parse(found)
    except InvalidInput as error:
        problems += [told for told in error.problems if not _is_about(told, resolver.problems)]
    if job is None or problems:
        redactor = Redactor(resolver.secrets)
        told = [redactor.redact(f"{path}: {problem}") for problem in problems]
        raise InvalidInput("\n".join(told), problems=told)
    return LoadedJob(path, job, tuple(resolver.secrets))


def _read(path: Path) -> dict[str, Any]:  # Any: whatever TOML may hold
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise _mistake(f"{path}: the file cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _mistake(f"{path}: the file is no text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at (line \d+, column \d+|end of document)\)", str(error))
        told = re.sub(r" \(at [^)]*\)$", "", str(error))
        raise _mistake(f"{path}: {place[1] if place else 'TOML'}: {told}") from None


def _mistake(told: str) -> InvalidInput:
    return InvalidInput(told, problems=[told])


def _is_about(problem: str, keys: Mapping[str, object]) -> bool:
    """Tell whether a mistake comes of a reference that was not found, which is told already."""
    return any(re.match(rf"{re.escape(key)}[ :]", problem) for key in keys)


def _shared(found: Mapping[str, Any]) -> Iterator[str]:  # Any: see _read
    """Yield what two pipelines have in common and may not."""
    pipelines = found.get("pipeline")
    for key in ("checkpoint", "stream"):
        owners: dict[str, str] = {}
        for name, pipeline in pipelines.items() if isinstance(pipelines, Mapping) else ():
            value = pipeline.get(key, name if key == "stream" else None) if isinstance(pipeline, Mapping) else None
            if isinstance(value, str) and owners.setdefault(value.rstrip("/"), name) != name:
                yield f"pipeline.{name}.{key} is that of pipeline.{owners[value.rstrip('/')]}: each needs its own"
