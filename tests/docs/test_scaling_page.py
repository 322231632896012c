"""The tables of the page on scaling have the measured numbers, and what the model makes of them."""

import json

import pytest

from benchmarks.scaling_model import MEASURED
from benchmarks.scaling_page import PAGE, with_tables


def test_tables_on_the_page_are_those_of_the_measured_numbers() -> None:
    text = PAGE.read_text()

    assert with_tables(text, json.loads(MEASURED.read_text())) == text


def test_page_without_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="must have one table with the head"):
        with_tables("no table", json.loads(MEASURED.read_text()))
