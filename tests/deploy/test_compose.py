"""The compose file: read by Compose's own grammar, every path that it mounts is there, every image is pinned."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from ducklake_streaming.jobs.job_file import load_job
from tests.fixtures.chart import ROOT

FOLDER = ROOT / "deploy" / "compose"
FILE = FOLDER / "compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())  # Any: YAML
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
GRAFANA = ROOT / "grafana"


def mounts() -> list[tuple[str, str, str]]:
    """Return each mount: the service, its source, its target."""
    return [(name, *mount.split(":")[:2]) for name, one in SERVICES.items() for mount in one.get("volumes", [])]


def read(text: dict[str, Any]) -> None:  # Any: YAML
    PyCompose.from_json(json.dumps(text)).validate()


def test_it_is_right_by_the_grammar_of_compose() -> None:
    read(COMPOSE)


@pytest.mark.parametrize("wrong", [{"mem_limmit": "1g"}, {"ports": ["a:b"]}, {"configs": ["unknown"]}], ids=str)
def test_the_grammar_refuses_what_is_wrong(wrong: dict[str, Any]) -> None:  # Any: YAML
    with pytest.raises(ValueError, match=r"."):
        read({**COMPOSE, "services": {**SERVICES, "job": {**SERVICES["job"], **wrong}}})


def test_every_mounted_path_is_there_and_every_volume_is_named() -> None:
    missing = [
        (name, source)
        for name, source, _ in mounts()
        if not ((FOLDER / source).exists() if source.startswith(".") else source in COMPOSE["volumes"])
    ]

    assert missing == []
    assert {source for _, source, _ in mounts() if not source.startswith(".")} == set(COMPOSE["volumes"])


def test_every_image_is_pinned() -> None:
    images = {one["image"] for one in SERVICES.values()}

    assert [image for image in images if not re.fullmatch(r"[a-z0-9./-]+:v?\d+\.\d+[\w.-]*", image)] == []


def test_every_port_is_open_to_this_machine_alone() -> None:
    ports = [port for one in SERVICES.values() for port in one.get("ports", [])]

    assert ports != []
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_what_is_ours_runs_as_in_the_chart() -> None:
    for name in ("job", "producer"):
        one = SERVICES[name]
        assert (one["read_only"], one["user"], one["cap_drop"]) == (True, "10001:10001", ["ALL"])
    assert SERVICES["job"]["mem_limit"] == f"{1024 + 384 + 512 + 2 * 256}m"


def test_its_job_can_be_loaded_and_names_the_services() -> None:
    environment = dict.fromkeys(SERVICES["job"]["environment"], "x")

    job = load_job(FOLDER / "job.toml", environment).job

    text = (FOLDER / "job.toml").read_text()
    assert all(f"{name}:" in text or f"@{name}/" in text for name in ("kafka", "postgres"))
    assert job.catalog.data_path == "s3://lake/data/"
    assert "password" not in str(tomllib.loads(text)).lower().replace("lake_password", "")


def test_prometheus_and_grafana_are_those_of_the_tested_files() -> None:
    ours, theirs = (
        yaml.safe_load(path.read_text()) for path in (FOLDER / "prometheus.yml", GRAFANA / "prometheus.yml")
    )
    assert (ours["rule_files"], ours["global"]) == (theirs["rule_files"], theirs["global"])
    assert ours["scrape_configs"][0]["static_configs"] == [{"targets": ["job:9464"]}]
    source = GRAFANA / "provisioning" / "datasources" / "ducklake.yaml"
    (mine,), (wanted,) = (
        yaml.safe_load(path.read_text())["datasources"] for path in (FOLDER / "datasource.yaml", source)
    )
    assert mine == {**wanted, "url": "http://prometheus:9090"}
    (provider,) = yaml.safe_load((GRAFANA / "provisioning" / "dashboards" / "ducklake.yaml").read_text())["providers"]
    targets = {target: (FOLDER / source).resolve() for name, source, target in mounts() if name == "grafana"}
    assert targets[provider["options"]["path"]] == GRAFANA / "dashboards"


def test_dashboards_and_rules_are_where_their_programs_look() -> None:
    targets = {target: (FOLDER / source).resolve() for name, source, target in mounts() if name == "prometheus"}

    assert targets["/etc/prometheus/rules"] == GRAFANA / "rules"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (GRAFANA / "dashboards" / Path(home).name).is_file()
