"""Schemas that a job file names: Spark's DDL, in the file or in one of its own, or Spark's JSON. Runs without Java."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from ducklake_core.settings import Problem, checked, optional, text
from ducklake_streaming.jobs.spark_ddl import parse_ddl


def read_schema(ddl: str | None, file: str | None) -> StructType | None:
    """Return the schema that is given, as a text or by its file; None if there is none."""
    if ddl is not None:
        return parse_ddl(ddl)
    return None if file is None else _read_file(Path(file))


def check_ddl(value: object) -> str:
    ddl = text(value)
    try:
        parse_ddl(ddl)
    except ValueError as error:
        raise Problem(f"is no schema: {error}") from None
    return ddl


def check_ddls(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError("a table of schemas by their topics")
    return {text(topic): check_ddl(ddl) for topic, ddl in value.items()}


def check_schema_file(value: object) -> str:
    path = text(value)
    try:
        _read_file(Path(path))
    except OSError as error:
        raise Problem(f"is {path!r}, which cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise Problem(f"is {path!r}, which holds no schema: {error}") from None
    return path


def _read_file(path: Path) -> StructType:
    parse = _BY_SUFFIX.get(path.suffix.lower())
    if parse is None:
        raise ValueError(f"its name must end in one of {', '.join(_BY_SUFFIX)}")
    return parse(path.read_text(encoding="utf-8-sig"))


def _parse_json(content: str) -> StructType:
    """Return a schema of Spark's JSON, as `DataFrame.schema.json()` gives it."""
    try:
        return StructType.fromJson(json.loads(content))
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (KeyError, TypeError, AttributeError, PySparkException):
        raise ValueError("it is JSON, but not what Spark's DataFrame.schema.json() gives") from None


_BY_SUFFIX: dict[str, Callable[[str], StructType]] = {".ddl": parse_ddl, ".sql": parse_ddl, ".json": _parse_json}
OptionalDdl: TypeAlias = Annotated[str | None, *checked(optional(check_ddl), {"type": "string", "minLength": 1})]
DdlsByTopic: TypeAlias = Annotated[
    Mapping[str, str], *checked(check_ddls, {"type": "object", "additionalProperties": {"type": "string"}})
]
OptionalSchemaFile: TypeAlias = Annotated[
    str | None, *checked(optional(check_schema_file), {"type": "string", "pattern": r"\.(ddl|sql|json)$"})
]
