"""docs/run-in-production.md: its commands run on a lake and a job file."""

from pathlib import Path

import pytest

from tests.docs.console_blocks import check_commands, make_lake_of_orders

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "run-in-production.md").read_text()
JOB = """
[catalog]
url = "sqlite:///lake.sqlite"
[pipeline.orders]
checkpoint = "checkpoint"
input = { kind = "rate" }
sink = { table = "main.rates" }
"""


def test_commands_show_what_the_page_says(tmp_path: Path) -> None:
    make_lake_of_orders(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)

    check_commands(PAGE, tmp_path, at_least=2)
