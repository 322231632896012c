"""What benchmarks beside Delta Lake and Iceberg share, without Spark: turns, medians and tables of ratios."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeAlias

Seconds: TypeAlias = Mapping[str, Sequence[float]]  # of each arm, turn by turn


@dataclass(frozen=True, slots=True)
class Column:
    """Seconds of all arms at one kind of work, such as the first read of a session."""

    name: str
    seconds: Seconds

    def median(self, arm: str) -> float | None:
        found = self.seconds.get(arm)
        return median(found) if found else None

    def ratio(self, base: str, arm: str) -> float | None:
        """Return how many times as fast as the base an arm is."""
        theirs, ours = self.median(base), self.median(arm)
        return theirs / ours if theirs and ours else None


@dataclass(frozen=True, slots=True)
class Result:
    """What is shown as one table. `extra` has more columns: their names, and what each arm has in them."""

    title: str
    columns: Sequence[Column]
    bases: Sequence[str]
    extra: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def take_turns(arms: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Let arms work in turns, another one first in each round; return the seconds of each."""
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(rounds):
        for name in rotated(list(arms), number):
            seconds[name].append(timed(arms[name]))
    return seconds


def rotated(names: Sequence[str], number: int) -> list[str]:
    """Return the names in the order of a round."""
    start = number % len(names)
    return [*names[start:], *names[:start]]


def timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def table(result: Result) -> str:
    """Return medians, and the speed of each arm beside each base (2: twice as fast), as a table of Markdown."""
    heads = ["arm"]
    for column in result.columns:
        heads += [f"{column.name} s", *(f"× {base}" for base in result.bases)]
    heads += result.extra
    arms = dict.fromkeys(arm for column in result.columns for arm in column.seconds)
    rule = "|---" + "|--:" * (len(heads) - 1) + "|"
    first, *lines = (f"| {' | '.join(cells)} |" for cells in (heads, *(_cells(arm, result) for arm in arms)))
    return "\n".join([first, rule, *lines])


def as_json(results: Sequence[Result]) -> str:
    """Return the seconds of all turns."""
    return json.dumps({one.title: {column.name: column.seconds for column in one.columns} for one in results})


def _cells(arm: str, result: Result) -> list[str]:
    cells = [arm]
    for column in result.columns:
        cells += [_number(column.median(arm)), *(_number(column.ratio(base, arm)) for base in result.bases)]
    return [*cells, *(found.get(arm, "–") for found in result.extra.values())]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
