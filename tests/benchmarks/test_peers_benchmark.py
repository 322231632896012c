"""The parts of the benchmark beside Delta Lake and Iceberg that need neither of them."""

import numpy as np
import pytest

from benchmarks.peers import upsert
from benchmarks.peers.__main__ import GROUPS, parse
from benchmarks.peers.tables import Column, Result, rotated, table, take_turns
from ducklake_streaming.demo.maven import PEERS, read_pins


def test_speeds_are_ratios_of_medians() -> None:
    warm = Column("warm", {"ours": [0.25, 9.0, 0.2], "Delta": [0.5, 0.4, 7.0]})
    first = Column("first", {"Delta": [1.0]})
    result = Result("feed", [first, warm], ["Delta"], {"bytes": {"ours": "36"}})

    assert warm.ratio("Delta", "ours") == 2
    assert first.ratio("Delta", "ours") is None
    assert table(result).splitlines() == [
        "| arm | first s | × Delta | warm s | × Delta | bytes |",
        "|---|--:|--:|--:|--:|--:|",
        "| Delta | 1.00 | 1.00 | 0.50 | 1.00 | – |",
        "| ours | – | – | 0.25 | 2.00 | 36 |",
    ]


def test_each_round_begins_with_another_arm() -> None:
    order: list[str] = []
    arms = {name: lambda name=name: order.append(name) for name in "abc"}

    seconds = take_turns(arms, 2)

    assert order == ["a", "b", "c", "b", "c", "a"]
    assert {name: len(found) for name, found in seconds.items()} == {"a": 2, "b": 2, "c": 2}
    assert rotated("abc", 5) == ["c", "a", "b"]


def test_only_known_groups_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    options = parse(["feed", "sink", "--quick"])

    assert options.what == ["feed", "sink"]
    assert options.quick
    with pytest.raises(SystemExit):
        parse(["hudi"])
    told = capsys.readouterr().err
    assert all(name in told for name in GROUPS)


@pytest.mark.parametrize("kind", upsert.KINDS)
def test_batches_of_updates_have_keys_of_the_table_and_each_once(kind: str) -> None:
    rows, batches = 50_000, 7
    count = np.arange(batches * upsert.BATCH)
    expression = upsert.changes(kind, rows)[0].removesuffix(" AS id").replace("div", "//")

    keys = eval(expression, {"id": count})  # noqa: S307 # our own, and the same in SQL and in Python

    assert keys.min() >= 0
    assert keys.max() < rows
    assert len(np.unique(keys)) == len(count)
    width = rows if kind == "spread" else upsert.BATCH
    assert np.ptp(keys[: upsert.BATCH]) in range(width - 50, width)


def test_jars_of_both_peers_are_pinned() -> None:
    names = " ".join(read_pins(PEERS))

    assert "delta-spark_4.1_" in names
    assert "iceberg-spark-runtime-4.1_" in names
