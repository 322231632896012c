"""What clusters that bring Spark are given: a list of packages, a program for spark-submit, manifests for operators."""

import re
import tomllib
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ducklake_streaming.jobs.job_file import load_job
from tests.fixtures.chart import ROOT

FOLDER = ROOT / "deploy"
OPERATORS = ("kubeflow", "apache")


def test_a_cluster_installs_what_we_need_but_spark_in_the_versions_we_test() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = dict(
        re.findall(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==([^ \n]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    )
    wanted = {_name(one): pinned[_name(one)] for one in project["dependencies"] if _name(one) != "pyspark"}

    lines = (FOLDER / "spark-submit" / "requirements.txt").read_text().splitlines()

    assert {_name(line): line.split("==")[1] for line in lines if not line.startswith("#")} == wanted


def _name(requirement: str) -> str:
    return re.split(r"[^a-z0-9-]", requirement, maxsplit=1)[0]


def _application(operator: str) -> dict[str, Any]:  # Any: YAML
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / "operators" / f"{operator}.yaml").read_text())
    return loaded


def _pods(operator: str) -> list[dict[str, Any]]:  # Any: YAML
    spec = _application(operator)["spec"]
    if operator == "kubeflow":
        return [spec[role]["template"] for role in ("driver", "executor")]
    return [spec[f"{role}Spec"]["podTemplateSpec"] for role in ("driver", "executor")]


@pytest.mark.parametrize("operator", OPERATORS)
def test_pods_of_an_operator_are_right_and_restricted(operator: str) -> None:
    for pod in _pods(operator):
        kubernetes_validate.validate(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, **pod}, "1.35", strict=True
        )
        assert pod["spec"]["securityContext"]["runAsUser"] == 10001
        (box,) = pod["spec"]["containers"]
        assert box["securityContext"]["readOnlyRootFilesystem"]


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_runs_the_job_file_that_it_mounts(operator: str) -> None:
    text = (FOLDER / "operators" / f"{operator}.yaml").read_text()

    assert "local:///opt/ducklake/run_job.py" in text
    assert "[run, /etc/ducklake/job.toml]" in text
    assert "{ name: job, mountPath: /etc/ducklake, readOnly: true }" in text
    assert "configMap: { name: orders-job }" in text


def test_the_job_file_of_operators_can_be_loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("job") / "job.toml"
    file.write_text(yaml.safe_load((FOLDER / "operators" / "job-configmap.yaml").read_text())["data"]["job.toml"])

    job = load_job(file, {}).job

    assert job.spark.master.startswith("k8s://")
    assert job.metrics is not None
