"""What a job file tells Spark itself: where it runs, and its own settings, which hold no secrets. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, TypeAlias

from ducklake_core.errors import InvalidInput
from ducklake_core.references import ReferencedText
from ducklake_core.settings import checked, text
from ducklake_streaming.jobs.values import OPTIONS_SCHEMA, parse_options

_MASTER = re.compile(r"local(\[(\*|\d+)(\s*,\s*\d+)?\])?|yarn|(spark|k8s)://.+")
_KEYS = {"spark.app.name": "app_name", "spark.master": "master"}
_REMEDY = (
    "Spark shows its settings in its UI and its event log: leave the value out, and give Spark its secrets by the "
    "environment or a file of its own"
)


def parse_master(value: object) -> str:
    master = text(value)
    refuse_reference(master)
    if not _MASTER.fullmatch(master):
        raise ValueError("'local[2]', 'local[*]', 'spark://host:7077', 'yarn' or 'k8s://…'")
    return master


def parse_app_name(value: object) -> str:
    name = text(value)
    refuse_reference(name)
    return name


def parse_spark_settings(value: object) -> Mapping[str, str]:
    settings = parse_options(value)
    problems = [problem for name, one in settings.items() if (problem := _problem(name, one))]
    if problems:
        raise InvalidInput("; ".join(problems))
    return settings


def refuse_reference(value: str) -> None:
    if isinstance(value, ReferencedText):
        raise InvalidInput(f"it refers to {value.written!r}, but {_REMEDY}")


def _problem(name: str, value: str) -> str | None:
    if name in _KEYS:
        return f"'{name}' is what {_KEYS[name]} says: use that"
    if not name.startswith("spark."):
        return f"'{name}' is no setting of Spark: they begin with 'spark.'"
    if isinstance(value, ReferencedText):
        return f"'{name}' refers to {value.written!r}, but {_REMEDY}"
    return None


Master: TypeAlias = Annotated[str, *checked(parse_master, {"type": "string", "minLength": 1})]
AppName: TypeAlias = Annotated[str, *checked(parse_app_name, {"type": "string", "minLength": 1})]
SparkOptions: TypeAlias = Annotated[Mapping[str, str], *checked(parse_spark_settings, OPTIONS_SCHEMA)]
