"""The model of how far a lake scales: it finds the laws again that numbers were made by, and the limit hit first."""

import json
from dataclasses import replace

import pytest

from benchmarks.scaling_model import GIB, MEASURED, Budget, Contention, Costs, Line, Load, limits_of

COSTS = Costs(
    contention=Contention(100, 0.1, 0.001),
    group=Line(5, 1),
    register=Line(5, 0.1),
    plan=Line(5, 0.01),
    open=Line(10, 0.05),
    message=Line(500, 2000),
    file_bytes=Line(300, 150),
    snapshot_bytes=400,
    table_bytes=5000,
)


@pytest.mark.parametrize("law", [Contention(80, 0.2, 0.003), Contention(80, 0.2, 0.0), Contention(50, 0.0, 0.0)])
def test_law_of_contention_is_found_from_its_points(law: Contention) -> None:
    found = Contention.fit({n: law.commits_per_second(n) for n in (1, 4, 16)})

    assert found.commits_per_second(64) == pytest.approx(law.commits_per_second(64), rel=1e-6)


def test_more_streams_are_never_thought_to_help_without_end() -> None:
    found = Contention.fit({1: 100, 4: 90, 16: 95})

    assert min(found.waiting, found.crosstalk) >= 0
    assert found.commits_per_second(1000) < 2 * found.commits_per_second(16)


def test_line_is_found_from_points_of_any_size() -> None:
    found = Line.fit({1: 5.1, 1000: 105})

    assert found.base == pytest.approx(5)
    assert found.each == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("load", "first"),
    [
        (Load("streams", streams=10_000), "commits"),
        (Load("files", files=100_000_000, hottest=0.0001), "catalog"),
        (Load("one table", files=2_000_000, hottest=1), "planning"),
        (Load("tables", tables=1_000_000), "opening"),
        (Load("tasks", files_in_batch=1_000_000), "messages"),
    ],
    ids=lambda value: value.name if isinstance(value, Load) else value,
)
def test_each_limit_can_be_the_first(load: Load, first: str) -> None:
    found = limits_of(load, COSTS)

    assert found[0].name == first
    assert found[0].share > 1
    assert [limit.share for limit in found] == sorted((limit.share for limit in found), reverse=True)


def test_larger_files_and_fewer_snapshots_make_the_catalog_smaller() -> None:
    load = Load("lake", files=1_000_000)
    sizes = [
        {limit.name: limit.needed for limit in limits_of(one, COSTS)}["catalog"]
        for one in (load, replace(load, files=100_000), replace(load, files=100_000, kept_days=0.1))
    ]

    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] * GIB == pytest.approx(1_000_000 * 3300 + 86_400 * 400 + 100 * 5000)


def test_budget_is_a_choice() -> None:
    small = limits_of(Load("lake"), COSTS, Budget(catalog_bytes=1))

    assert small[0].name == "catalog"


def test_measured_numbers_predict_those_that_the_model_has_not_seen() -> None:
    measured = json.loads(MEASURED.read_text())

    errors = Costs.fit(measured).errors(measured)

    assert len(errors["commits_per_second"]) >= 2
    assert all(abs(error) < 0.5 for of in errors.values() for error in of.values()), errors
