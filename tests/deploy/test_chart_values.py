"""Values of the chart, by its schema alone, and that it brings the rules and dashboards that are tested. No Helm."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.fixtures.chart import CHART, EXAMPLES, MINIMAL, ROOT, load_values

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()


def problems(values: dict[str, Any]) -> list[str]:  # Any: YAML
    found = Draft202012Validator(SCHEMA).iter_errors(values)
    return sorted(f"{'.'.join(map(str, one.absolute_path))}: {one.message}" for one in found)


def with_job(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:  # Any: YAML
    values = copy.deepcopy(load_values(MINIMAL))
    change(values["jobs"]["orders"])
    return values


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", [CHART / "values.yaml", *EXAMPLES], ids=lambda path: path.name)
def test_the_defaults_and_every_example_are_right(path: Path) -> None:
    assert problems(load_values(path)) == []


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("chekpoint", {}, "'chekpoint' was unexpected"),
        ("checkpoint", {"type": "hostPath"}, "'hostPath' is not one of ['pvc', 'objectStore', 'emptyDir']"),
        ("checkpoint", {"size": "big"}, "'big' does not match"),
        ("env", {"A B": "x"}, "'A B' does not match"),
        ("secretEnv", {"PGPASSWORD": "x"}, "'x' is not of type 'object'"),
        ("secretEnv", {"PGPASSWORD": {"secret": "x"}}, "'key' is a required property"),
        ("memory", {"heap": 100}, "100 is less than the minimum of 512"),
        ("cores", 0, "0 is less than the minimum of 1"),
        ("files", {"job.toml": ""}, "'job.toml' should not be valid"),
        ("executors", {"instances": 2}, "'cores' is a required property"),
    ],
)
def test_a_wrong_value_of_a_job_is_named(key: str, value: object, told: str) -> None:
    found = problems(with_job(lambda job: job.update({key: value})))

    assert found != []
    assert found[0].startswith("jobs.orders")
    assert told in "\n".join(found)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"image": {"repository": "a", "tag": "latest"}}, "image.tag: 'latest' should not be valid"),
        ({"image": {"repository": "a:1"}}, "image.repository: 'a:1' does not match"),
        ({"image": {"repository": "a", "digest": "sha256:1"}}, "image.digest: 'sha256:1' does not match"),
        ({"jobs": {"Orders": {"file": "x"}}}, "jobs: 'Orders' does not match"),
        ({"jobs": {"orders": {}}}, "jobs.orders: 'file' is a required property"),
        ({"terminationGracePeriodSeconds": 5}, "terminationGracePeriodSeconds: 5 is less than the minimum of 30"),
        (
            {"maintenance": {"catalog": "postgresql://a:b@c/d"}},
            "maintenance.catalog: 'postgresql://a:b@c/d' should not",
        ),
        ({"maintenance": {"schedule": "hourly"}}, "maintenance.schedule: 'hourly' does not match"),
        ({"replicas": 2}, "'replicas' was unexpected"),
    ],
)
def test_a_wrong_value_is_named(values: dict[str, Any], told: str) -> None:  # Any: YAML
    assert told in "\n".join(problems(values))


@pytest.mark.parametrize(("inside", "source"), [("rules", "*.yaml"), ("dashboards", "*.json")])
def test_the_chart_has_the_tested_files_of_grafana(inside: str, source: str) -> None:
    ours = sorted((ROOT / "grafana" / inside).glob(source))
    charts = sorted((CHART / "files" / inside).glob(source))

    assert [one.resolve() for one in charts] == ours != []


def test_the_page_explains_every_value() -> None:
    defaults = load_values(CHART / "values.yaml")

    missing = [name for name in (*defaults, *defaults["defaults"], *defaults["metrics"]) if f"`{name}" not in PAGE]

    assert missing == []


def test_the_chart_is_of_the_version_of_the_package() -> None:
    chart = load_values(CHART / "Chart.yaml")

    assert f'version = "{chart["appVersion"]}"' in (ROOT / "pyproject.toml").read_text()
