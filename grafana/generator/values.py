"""What a dashboard is, as values: a test asks their queries, a script draws them, `build.py` makes Grafana's JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """Grafana's ids of units."""

    COUNT = "short"
    PER_SECOND = "cps"
    ROWS_PER_SECOND = "rowsps"
    BYTES = "decbytes"
    BYTES_PER_SECOND = "Bps"
    SECONDS = "s"
    SHARE = "percentunit"
    TIME = "dateTimeFromNow"


class Look(StrEnum):
    """How a panel shows its data: lines in time, lines on top of each other, or the newest number of each series."""

    LINES = "lines"
    STACK = "stack"
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class Query:
    """One query in PromQL, and what its series are called: `{{label}}` stands for the value of a label."""

    text: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `bad_from`: numbers from here on are red; with `good_text`, 1 is this text and 0 is `bad_text`."""

    title: str
    help: str
    queries: tuple[Query, ...]
    unit: Unit = Unit.COUNT
    look: Look = Look.LINES
    width: int = 8  # of 24
    bad_from: float | None = None
    good_text: str = ""
    bad_text: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels below a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard; `name` is its file's name and, after `ducklake-`, its uid."""

    name: str
    title: str
    help: str
    rows: tuple[Row, ...]

    @property
    def panels(self) -> Iterator[Panel]:
        for row in self.rows:
            yield from row.panels
