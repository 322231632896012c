"""The page about the status page names what is there."""

import re
from pathlib import Path

from ducklake_streaming.metrics.run_facts import State

PAGE = (Path(__file__).parents[2] / "docs" / "status-page.md").read_text()


def test_each_state_of_a_pipeline_is_explained() -> None:
    told = re.findall(r"^\| ([a-zA-Z ]+?) \|", PAGE, re.MULTILINE)

    assert told == ["state", *State]
