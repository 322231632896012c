"""Every command on the page about the command line runs, and shows what the page says."""

import re
from pathlib import Path

from ducklake_streaming.cli.errors import ExitCode
from tests.docs.console_blocks import check_commands, make_lake_of_orders

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()


def test_commands_of_the_page_show_what_it_says(tmp_path: Path) -> None:
    make_lake_of_orders(tmp_path)

    check_commands(PAGE, tmp_path, at_least=11)

    assert (tmp_path / "orders.csv").read_text().startswith("id,amount\n1,9.5\n")


def test_exit_codes_of_the_page_are_those_of_the_code() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert told == set(ExitCode)
