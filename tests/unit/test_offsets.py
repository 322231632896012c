"""Spark's text of a batch's offsets, which snapshots tell to people."""

from typing import Any

import pytest

from ducklake_sinks.query import parse_offsets


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("None", None),
        ("Some([])", []),
        ('Some([{"offset":100,"timestamp":1000}])', [{"offset": 100, "timestamp": 1000}]),
        ('Some([{"t)]":{"0":5}}, -, -7, [1, 2]])', [{"t)]": {"0": 5}}, None, -7, [1, 2]]),
        ("Some([file 3, -])", ["file 3, -"]),
    ],
    ids=["forgotten", "no source", "one source", "several, one without", "no JSON"],
)
def test_offsets_are_what_each_source_says(text: str, offsets: list[Any] | None) -> None:
    assert parse_offsets(text) == offsets
