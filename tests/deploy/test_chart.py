"""What Helm makes of the chart: right by Kubernetes' own schemas, hardened, and refused where data would be lost."""

import copy
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ducklake_streaming.jobs.job_file import load_job
from tests.fixtures.chart import CHART, EXAMPLES, MINIMAL, ROOT, Manifest, lint, load_values, only, refusal, render

KUBERNETES = ("1.31", "1.35", "1.37")
CUSTOM = {"PodMonitor", "PrometheusRule", "ServiceMonitor"}  # kubernetes_validate knows none; the API server is asked
EXAMPLE_IDS = [path.stem for path in EXAMPLES]


def minimal() -> dict[str, Any]:  # Any: YAML
    return copy.deepcopy(load_values(MINIMAL))


def with_job(**changes: object) -> dict[str, Any]:  # Any: YAML
    values = minimal()
    values["jobs"]["orders"] |= changes
    return values


def pods(manifests: list[Manifest]) -> list[dict[str, Any]]:  # Any: YAML
    """Return the specification of each Pod that is or will be made."""
    found = []
    for one in manifests:
        spec = one.get("spec", {})
        match one["kind"]:
            case "Deployment":
                found.append(spec["template"]["spec"])
            case "CronJob":
                found.append(spec["jobTemplate"]["spec"]["template"]["spec"])
            case "Pod":
                found.append(spec)
    return found


@pytest.mark.parametrize("path", EXAMPLES, ids=EXAMPLE_IDS)
def test_every_example_is_right_by_the_schemas_of_kubernetes(path: Path) -> None:
    values = load_values(path)

    assert "0 chart(s) failed" in lint(values)
    for manifest in render(values):
        for version in KUBERNETES if manifest["kind"] not in CUSTOM else ():
            kubernetes_validate.validate(manifest, version, strict=True)


def test_without_jobs_nothing_runs() -> None:
    assert pods(render({})) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=EXAMPLE_IDS)
def test_every_pod_is_restricted(path: Path) -> None:
    for pod in pods(render(load_values(path))):
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            own = container["securityContext"]
            assert own["readOnlyRootFilesystem"]
            assert not own["allowPrivilegeEscalation"]
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]
            assert "command" not in container  # the entry point of the image, and no shell


@pytest.mark.parametrize("path", EXAMPLES, ids=EXAMPLE_IDS)
def test_no_secret_is_made_and_no_variable_holds_one(path: Path) -> None:
    manifests = render(load_values(path))

    assert "Secret" not in {one["kind"] for one in manifests}
    variables = chain.from_iterable(box["env"] or [] for pod in pods(manifests) for box in pod["containers"])
    plain = {one["name"] for one in variables if "value" in one}
    assert plain <= {"SPARK_DRIVER_MEMORY", "DUCKLAKE_CATALOG", "AWS_REGION"}


def test_a_job_is_one_pod_that_is_ended_before_the_next_begins() -> None:
    spec = only(render(minimal()), "Deployment")["spec"]

    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 180


def test_memory_is_that_of_java_python_and_its_workers() -> None:
    box = only(render(minimal()), "Deployment")["spec"]["template"]["spec"]["containers"][0]

    assert box["resources"]["limits"]["memory"] == f"{1024 + 384 + 512 + 2 * 256}Mi"
    assert {"name": "SPARK_DRIVER_MEMORY", "value": "1024m"} in box["env"]
    large = with_job(cores=4, memory={"heap": 8192, "python": 1000, "worker": 100})
    box = only(render(large), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert box["resources"]["requests"] == {"cpu": "4", "memory": f"{8192 + 2048 + 1000 + 4 * 100}Mi"}


def test_probes_ask_where_the_job_is_told_to_serve() -> None:
    box = only(render({**minimal(), "metrics": {"port": 9999}}), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ][0]

    assert box["args"] == ["run", "/var/lib/ducklake/job.toml", "--metrics", "0.0.0.0:9999"]
    assert box["ports"] == [{"name": "metrics", "containerPort": 9999}]
    asked = {name: box[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert {name: one["path"] for name, one in asked.items()} == {
        "startupProbe": "/livez",
        "readinessProbe": "/readyz",
        "livenessProbe": "/livez",
    }
    assert {one["port"] for one in asked.values()} == {"metrics"}


@pytest.mark.parametrize("path", EXAMPLES, ids=EXAMPLE_IDS)
def test_job_files_arrive_as_they_were_given_and_a_job_can_load_them(path: Path, tmp_path: Path) -> None:
    manifests, environment = render(load_values(path)), dict.fromkeys(("LAKE_PASSWORD", "KAFKA_LOGIN"), "x")

    for name, job in load_values(path)["jobs"].items():
        data = only(manifests, "ConfigMap", f"lake-ducklake-stream-{name}")["data"]
        assert tomllib.loads(data["job.toml"]) == tomllib.loads(job["file"])
        for file, text in data.items():
            (tmp_path / file).write_text(text)
        assert load_job(tmp_path / "job.toml", environment).job.pipeline


def test_relative_checkpoints_are_on_the_volume_which_outlives_the_release() -> None:
    manifests = render(minimal())

    mounts = only(manifests, "Deployment")["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    places = {one["mountPath"]: one["name"] for one in mounts}
    assert (places["/var/lib/ducklake"], places["/var/lib/ducklake/job.toml"]) == ("checkpoint", "job")
    claim = only(manifests, "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_a_changed_job_file_restarts_its_job_alone() -> None:
    values = load_values(CHART / "ci" / "full-values.yaml")
    before = _checksums(values)
    values["jobs"]["numbers"]["file"] += "# changed\n"
    after = _checksums(values)

    assert [name for name in before if before[name] != after[name]] == ["lake-ducklake-stream-numbers"]


def _checksums(values: dict[str, Any]) -> dict[str, str]:  # Any: YAML
    deployments = [one for one in render(values) if one["kind"] == "Deployment"]
    return {
        one["metadata"]["name"]: one["spec"]["template"]["metadata"]["annotations"]["checksum/job"]
        for one in deployments
    }


def test_rules_and_dashboards_are_those_of_grafana_and_scrape_jobs_have_the_name_they_look_for() -> None:
    manifests = render(load_values(CHART / "ci" / "full-values.yaml"))

    rules = only(manifests, "PrometheusRule")["spec"]["groups"]
    files = sorted((ROOT / "grafana" / "rules").glob("*.yaml"))
    text = "\n".join(file.read_text() for file in files).replace(
        "docs/runbook.md", "https://wiki.example.com/ducklake/runbook"
    )
    wanted = [group for part in text.split("\ngroups:")[1:] for group in yaml.safe_load("groups:" + part)["groups"]]
    assert {one["name"]: one for one in rules} == {one["name"]: one for one in wanted} != {}
    dashboards = {
        name: data
        for one in manifests
        if one["kind"] == "ConfigMap" and "grafana_dashboard" in one["metadata"]["labels"]
        for name, data in one["data"].items()
    }
    sources = {f"ducklake-{file.name}": file.read_text() for file in (ROOT / "grafana" / "dashboards").glob("*.json")}
    assert {name: text.strip() for name, text in dashboards.items()} == {n: t.strip() for n, t in sources.items()} != {}
    (endpoint,) = only(manifests, "PodMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "ducklake-lake"}]


def test_helm_test_looks_at_each_job_beside_its_volume() -> None:
    pod = only(render(minimal()), "Pod")

    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["spec"]["containers"][0]["args"] == ["check", "/var/lib/ducklake/job.toml"]
    assert pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]


def test_a_driver_with_executors_may_start_them_and_others_may_nothing() -> None:
    alone, driver = render(minimal()), render(load_values(CHART / "ci" / "executors-values.yaml"))

    assert not only(alone, "Deployment")["spec"]["template"]["spec"]["automountServiceAccountToken"]
    assert "Role" not in {one["kind"] for one in alone}
    assert only(driver, "Deployment")["spec"]["template"]["spec"]["automountServiceAccountToken"]
    settings = only(driver, "ConfigMap")["data"]
    assert "spark.executor.instances 3\n" in settings["spark-defaults.conf"]
    kubernetes_validate.validate(
        yaml.safe_load(settings["executor.yaml"]) | {"metadata": {"name": "x"}}, "1.35", strict=True
    )


FILE = load_values(MINIMAL)["jobs"]["orders"]["file"]


@pytest.mark.parametrize(
    ("job", "told"),
    [
        ({"checkpoint": {"type": "emptyDir"}}, "checkpoint.type is emptyDir, which is gone with its Pod"),
        (
            {"checkpoint": {"type": "objectStore"}},
            'checkpoint is "checkpoints/orders", but jobs.orders.checkpoint.type',
        ),
        ({"file": FILE.replace('"checkpoints/', '"/srv/')}, 'is "/srv/orders", which is on no volume'),
        ({"file": FILE.replace('"checkpoints/', '"../')}, "write a path below /var/lib/ducklake"),
        ({"file": FILE.replace("lake@", "lake:word@")}, "has a password in a URL, and a ConfigMap shows it"),
        ({"file": FILE.replace("[spark]", "[spark")}, "jobs.orders.file is no TOML"),
        (
            {"executors": {"instances": 1, "cores": 1, "heap": 1024, "overhead": 512}},
            'master = "local[2]": write master',
        ),
        ({"file": FILE.replace("local[2]", "k8s://https://x")}, "but it has no executors"),
        ({"replicas": 2}, "additional properties 'replicas' not allowed"),
        ({"env": {"PGPASSWORD": "x"}}, "env.PGPASSWORD sounds like a secret"),
        ({"cores": "two"}, "/jobs/orders/cores"),
    ],
)
def test_a_job_that_would_lose_data_or_show_a_secret_is_refused_with_the_reason(
    job: dict[str, Any], told: str
) -> None:  # Any: YAML
    assert told in refusal(with_job(**job))


def test_a_job_is_not_scraped_twice() -> None:
    both = {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}

    assert "each job would be scraped twice" in refusal({**minimal(), "metrics": both})
