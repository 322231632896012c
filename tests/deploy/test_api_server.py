"""Every manifest, as a real Kubernetes API server takes it, in a namespace that refuses Pods which are not restricted.

`make test-kube` runs these; Go builds the server first, in minutes. Nothing is scheduled: no container is started.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fixtures.apiserver import TOKEN, ApiServer, run_api_server
from tests.fixtures.chart import EXAMPLES, ROOT, Manifest, kube_tool, load_values, only, render

NAMESPACE = "streams"
OPERATORS = ROOT / "deploy" / "operators"
IMAGE = "ducklake-stream:0.1.0"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "TEST_KUBE" not in os.environ, reason="'make test-kube' runs it, with a real Kubernetes API server"
    ),
]


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with run_api_server() as running:
        running.make_namespace(NAMESPACE)
        # A dry run keeps nothing: what Pods refer to is there before.
        running.done("create", "serviceaccount", "lake-ducklake-stream", f"--namespace={NAMESPACE}")
        running.done("create", "priorityclass", "streams", "--value=1000")
        for path in sorted(kube_tool("crds", build=True).glob("*.yaml")):
            running.done("create", "-f", str(path))
        running.done("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        yield running


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_server_takes_every_manifest_without_a_warning(path: Path, server: ApiServer) -> None:
    server.dry_run(render(load_values(path), namespace=NAMESPACE), NAMESPACE)


def test_the_server_refuses_what_is_wrong_so_that_these_tests_can_fail(server: ApiServer) -> None:
    deployment = only(render(load_values(EXAMPLES[-1])), "Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["securityContext"]["privileged"] = True

    with pytest.raises(AssertionError, match=r"Warning|privileged"):
        server.dry_run([deployment], NAMESPACE)


def test_the_pod_security_of_the_namespace_is_enforced(server: ApiServer) -> None:
    pod = only(render(load_values(EXAMPLES[-1])), "Pod")
    del pod["spec"]["securityContext"]["seccompProfile"]

    with pytest.raises(AssertionError, match="seccompProfile"):
        server.dry_run([pod], NAMESPACE)


def test_the_server_takes_the_application_of_the_kubeflow_operator(server: ApiServer) -> None:
    files = (OPERATORS / "job-configmap.yaml", OPERATORS / "kubeflow.yaml")

    server.dry_run([yaml.safe_load(file.read_text()) for file in files], NAMESPACE)


def test_spark_submit_makes_the_driver_that_we_expect(server: ApiServer) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ducklake-driver"}}
    server.done("apply", f"--namespace={NAMESPACE}", "-f", "-", text=json.dumps(account))
    template = server.folder / "driver.yaml"
    template.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **_kubeflow_driver()}))

    _submit(server, template)

    (pod,) = json.loads(server.done("get", "pods", f"--namespace={NAMESPACE}", "-o", "json"))["items"]
    _assert_driver(pod)


def _kubeflow_driver() -> Manifest:
    found: Manifest = yaml.safe_load((OPERATORS / "kubeflow.yaml").read_text())["spec"]["driver"]["template"]
    return found


def _submit(server: ApiServer, template: Path) -> None:
    settings = {
        "spark.kubernetes.namespace": NAMESPACE,
        "spark.kubernetes.container.image": IMAGE,
        "spark.kubernetes.authenticate.driver.serviceAccountName": "ducklake-driver",
        "spark.kubernetes.driver.podTemplateFile": str(template),
        "spark.kubernetes.authenticate.submission.oauthToken": TOKEN,
        "spark.kubernetes.authenticate.submission.caCertFile": f"{server.folder}/apiserver.crt",
        "spark.kubernetes.submission.waitAppCompletion": "false",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = [
        str(Path(sys.executable).with_name("spark-submit")),
        *("--master", f"k8s://{server.url}", "--deploy-mode", "cluster", "--name", "orders"),
        *words,
        *("local:///opt/ducklake/run_job.py", "run", "/etc/ducklake/job.toml"),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def _assert_driver(pod: dict[str, Any]) -> None:  # Any: JSON
    (box,) = pod["spec"]["containers"]
    assert box["image"] == IMAGE
    assert box["args"][0] == "driver"  # what our entry point makes spark-submit of
    assert box["args"][-3:] == ["local:///opt/ducklake/run_job.py", "run", "/etc/ducklake/job.toml"]
    assert box["securityContext"]["readOnlyRootFilesystem"]
    assert pod["spec"]["securityContext"]["runAsUser"] == 10001
    mounts = {one["mountPath"] for one in box["volumeMounts"]}
    assert {"/etc/ducklake", "/tmp", "/opt/spark/conf"} <= mounts  # noqa: S108 # the container's
    names = {one["name"] for one in box["env"]}
    assert {"SPARK_DRIVER_BIND_ADDRESS", "PGPASSWORD"} <= names
