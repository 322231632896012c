"""The JSON schema of job files, which editors use: it takes what the settings take, and knows every key."""

import tomllib
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from ducklake_streaming.jobs.json_schema import job_schema

VALIDATOR = jsonschema_rs.validator_for(job_schema())
EXAMPLE = (Path(__file__).parents[2] / "docs" / "jobs.md").read_text().split("```toml\n")[1].split("```")[0]


def _example(path: str, value: object) -> dict[str, Any]:
    """Return the example of the docs with another value for a key."""
    found = tomllib.loads(EXAMPLE)
    *outer, last = path.split(".")
    place = found
    for name in outer:
        place = place[name]
    place[last] = value
    return found


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("job", {"on_failure": "continue"}),
        ("pipeline.orders.sink.flush", False),
        ("pipeline.orders.sink.flush", {"rows": 5, "bytes": False, "age": 3.5}),
        ("pipeline.orders.input.starting_offsets", {"orders": {"0": 1}}),
        ("pipeline.orders.input", {"kind": "rate", "rows_per_second": 3}),
        ("pipeline.orders.input", {"kind": "ducklake", "table": "t", "columns": ["a", "b"], "read_change_feed": True}),
        ("pipeline.orders.input", {"kind": "files", "path": "in", "format": "csv", "schema": "a int"}),
        ("pipeline.orders.trigger", 5),
    ],
)
def test_schema_takes_what_a_job_file_may_say(path: str, value: object) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(_example(path, value))] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sprak", {}),
        ("catalog.url", 5),
        ("job", {"on_failure": "contine"}),
        ("pipeline.orders.sink.tabel", "t"),
        ("pipeline.orders.sink.flush", True),
        ("pipeline.orders.sink.flush", {"row": 5}),
        ("pipeline.orders.sink.merge_schema", "yes"),
        ("pipeline.orders.input.kind", "kafak"),
        ("pipeline.orders.input", {"kind": "rate", "servers": "x"}),
        ("pipeline.orders.input.format", "xml"),
    ],
)
def test_schema_refuses_what_a_job_file_may_not_say(path: str, value: object) -> None:
    assert not VALIDATOR.is_valid(_example(path, value))


def test_every_key_has_a_description() -> None:
    definitions = job_schema()["$defs"].values()
    keys = [(name, key) for one in definitions for name, key in one["properties"].items() if name != "kind"]

    assert len(keys) > 60
    assert [name for name, key in keys if not key.get("description")] == []
