"""The rule files: each alert names metrics that exist, has cases for promtool and a heading in the runbook."""

import re
from pathlib import Path

import pytest

from tests.fixtures.rule_files import FILES, Rule, cases, declared_series, metrics_in, rules

RUNBOOK = (Path(__file__).parents[2] / "docs" / "runbook.md").read_text()
RULES = rules()
ALERTS = [rule for rule in RULES if rule.is_alert]
RECORDED = {rule.name for rule in RULES if not rule.is_alert}
OF_OTHERS = {"up", "process_start_time_seconds"}  # Prometheus' own, and prometheus_client's


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_names_metrics_that_exist(rule: Rule) -> None:
    assert metrics_in(rule.expression)
    assert metrics_in(rule.expression) - declared_series() - RECORDED - OF_OTHERS == set()


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: rule.name)
def test_an_alert_says_how_bad_it_is_what_it_is_and_where_to_read(alert: Rule) -> None:
    assert alert.severity in {"critical", "warning"}
    assert alert.annotations["summary"]
    assert alert.annotations["runbook_url"] == f"docs/runbook.md#{alert.name.lower()}"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: rule.name)
def test_an_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_quiet(alert: Rule) -> None:
    """One in which it is quiet has series of what it asks for: a case without any would say nothing."""
    mine = [case for case in cases() if case.alert == alert.name]
    asked = _base_metrics(alert.expression)

    assert {case.fires for case in mine} == {True, False}
    assert all(asked & {name for one in case.series for name in metrics_in(one)} for case in mine)


def test_alerts_have_names_of_their_own_and_cases_are_of_alerts() -> None:
    names = [alert.name for alert in ALERTS]

    assert len(set(names)) == len(names) >= 20
    assert {case.alert for case in cases()} == set(names)


def test_the_runbook_has_a_heading_for_each_alert_and_no_other() -> None:
    assert re.findall(r"^## (DuckLake\w+)$", RUNBOOK, re.MULTILINE) == [alert.name for alert in ALERTS]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: rule.name)
def test_a_heading_says_what_it_means_how_to_look_what_to_do_and_when_it_is_over(alert: Rule) -> None:
    section = re.split(r"^## ", RUNBOOK.partition(f"## {alert.name}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]

    assert re.findall(r"^\*\*([^*]+)\.\*\*", section, re.MULTILINE) == ["Means", "Look", "Do", "Over"]


def test_every_alert_has_a_comment_before_it_or_before_its_group_that_says_where_numbers_come_from() -> None:
    for path in FILES:
        for group in re.split(r"\n\n", path.read_text()):
            assert "- alert:" not in group or "#" in group.partition("- alert:")[0] or "slo" in path.name, group


def _base_metrics(expression: str) -> set[str]:
    """Return the metrics of an expression, and of the records in it."""
    records = {rule.name: rule.expression for rule in RULES if not rule.is_alert}
    found, new = set[str](), metrics_in(expression)
    while new:  # one record may name itself: what it was before
        found |= new
        new = {base for name in new & set(records) for base in metrics_in(records[name])} - found
    return found
