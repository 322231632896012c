"""The page on scaling says what the model makes of the measured numbers."""

import json
from pathlib import Path

from benchmarks.scaling_model import MEASURED, Costs, prediction_lines

PAGE = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text()


def test_predictions_on_the_page_are_those_of_the_model() -> None:
    assert [line for line in prediction_lines(Costs.load()) if line not in PAGE] == []


def test_errors_on_the_page_are_those_of_the_model() -> None:
    measured = json.loads(MEASURED.read_text())

    for name, of in Costs.load().errors(measured).items():
        for count, error in of.items():
            assert f"| {name} | {count} | {error:+.0%} |" in PAGE
