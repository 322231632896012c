"""The dashboards: their JSON is what the code makes, and they name every metric that there is and no other."""

import json
from pathlib import Path

import pytest
import yaml

from ducklake_streaming.metrics.declared import METRICS, Kind
from grafana.generator.boards import DASHBOARDS, NOT_SHOWN, OTHER_METRICS
from grafana.generator.build import json_of
from grafana.generator.values import Dashboard
from tests.fixtures.rule_files import declared_series, metrics_in, rules

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "grafana" / "dashboards"
RECORDED = {rule.name for rule in rules() if not rule.is_alert}
SHOWN = {name for board in DASHBOARDS for p in board.panels for query in p.queries for name in metrics_in(query.text)}


def test_files_of_the_folder_are_what_the_code_makes() -> None:
    """`make dashboards` mends it."""
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == {
        f"{board.name}.json": json_of(board) for board in DASHBOARDS
    }


def test_panels_name_metrics_that_exist() -> None:
    assert SHOWN - declared_series() - RECORDED - OTHER_METRICS == set()
    assert OTHER_METRICS <= SHOWN


def test_every_metric_is_on_a_panel_or_has_a_reason_why_not() -> None:
    hidden = {metric.name for metric in METRICS if not _series_of(metric.name, metric.kind) & SHOWN}

    assert hidden == {metric.name for metric in NOT_SHOWN}
    assert all(NOT_SHOWN.values())


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
def test_a_dashboard_has_variables_links_and_panels_that_explain_themselves(board: Dashboard) -> None:
    told = json.loads(json_of(board))

    assert [one["name"] for one in told["templating"]["list"]] == ["datasource", "instance", "pipeline", "table"]
    assert {link["url"] for link in told["links"]} == {f"/d/ducklake-{other.name}" for other in DASHBOARDS}
    panels = [one for one in told["panels"] if one["type"] != "row"]
    assert [one["title"] for one in panels] == [panel.title for panel in board.panels]
    assert all(one["description"] and one["datasource"]["uid"] == "${datasource}" for one in panels)
    assert len({one["id"] for one in told["panels"]}) == len(told["panels"])


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
def test_panels_do_not_overlap(board: Dashboard) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(json_of(board))["panels"]:
        place = panel["gridPos"]
        fields = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert place["x"] + place["w"] <= 24
        assert not fields & taken
        taken |= fields


def test_provisioning_names_the_folder_of_the_dashboards_and_a_data_source() -> None:
    provisioning = ROOT / "grafana" / "provisioning"
    boards = yaml.safe_load((provisioning / "dashboards" / "ducklake.yaml").read_text())
    sources = yaml.safe_load((provisioning / "datasources" / "ducklake.yaml").read_text())

    assert [one["options"]["path"] for one in boards["providers"]] == ["/var/lib/grafana/dashboards/ducklake"]
    assert [(one["type"], one["url"]) for one in sources["datasources"]] == [("prometheus", "http://localhost:9090")]


def _series_of(name: str, kind: Kind) -> set[str]:
    return {f"{name}_bucket", f"{name}_sum", f"{name}_count"} if kind is Kind.HISTOGRAM else {name}
