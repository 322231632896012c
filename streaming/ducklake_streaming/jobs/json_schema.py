"""The JSON schema of job files, for editors: made of the settings, written to `docs/job.schema.json` by `make docs`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from ducklake_core.settings import Settings
from ducklake_sinks import FlushPolicy
from ducklake_streaming.jobs.settings import Job
from ducklake_streaming.jobs.values import TriggerSetting

_NEVER = {"const": False, "description": "never"}


def schema_text() -> str:
    """Return the schema as its file has it."""
    return json.dumps(job_schema(), indent=2, ensure_ascii=False) + "\n"


def job_schema() -> dict[str, Any]:  # Any: whatever JSON may hold
    """Return the schema of a whole job file, as TOML's values are in JSON."""
    schema = Job.model_json_schema(schema_generator=_Generator)
    for part in _parts(schema):
        _tidy(part)
    _let_false_be_never(schema)
    return {"$schema": GenerateJsonSchema.schema_dialect, "title": "A job file of ducklake-stream", **schema}


class _Generator(GenerateJsonSchema):
    """Shows defaults as a job file has them."""

    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012 # pydantic's own name and type

    def encode_default(self, dft: Any) -> Any:  # Any: the value of any setting
        if isinstance(dft, (Settings, TriggerSetting, timedelta, frozenset)):
            return None  # which `_tidy` takes out, or puts what docs show in its place
        return super().encode_default(dft)


def _parts(value: Any) -> Iterator[dict[str, Any]]:  # Any: see job_schema
    """Yield every schema within a schema."""
    if isinstance(value, dict):
        yield value
        for one in value.values():
            yield from _parts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _parts(one)


def _tidy(part: dict[str, Any]) -> None:  # Any: see job_schema
    """Take out what only pydantic or OpenAPI knows; TOML has no null."""
    shown = part.pop("shown", None)
    if isinstance(shown, str) and shown.startswith("`"):
        part["default"] = shown.strip("`'\"")
    elif "default" in part and part["default"] is None:
        del part["default"]
    part.pop("discriminator", None)
    if isinstance(part.get("title"), str):
        del part["title"]
    if "anyOf" in part:
        part["anyOf"] = [choice for choice in part["anyOf"] if choice != {"type": "null"}]


def _let_false_be_never(schema: dict[str, Any]) -> None:  # Any: see job_schema
    """Allow `flush = false`, and false for each threshold that may be None."""
    definitions = schema["$defs"]
    definitions["SinkSettings"]["properties"]["flush"]["anyOf"].append(_NEVER)
    thresholds = definitions["FlushPolicy"]["properties"]
    for name, field in FlushPolicy.model_fields.items():
        if field.annotation is not None and type(None) in getattr(field.annotation, "__args__", ()):
            kept = {
                key: thresholds[name].pop(key) for key in ("type", "minimum", "examples") if key in thresholds[name]
            }
            thresholds[name]["anyOf"] = [kept, _NEVER]
