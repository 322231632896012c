"""Numbers of a panel as people read them, and the names of its series. For our drawings: Grafana has its own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from grafana.generator.values import Panel, Unit

_SUFFIXES = {
    Unit.COUNT: "",
    Unit.PER_SECOND: "/s",
    Unit.ROWS_PER_SECOND: " rows/s",
    Unit.BYTES: "B",
    Unit.BYTES_PER_SECOND: "B/s",
}
_LARGE = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def told(panel: Panel, value: float) -> str:
    """Return a value as the panel shows it."""
    if panel.good_text:
        return panel.good_text if value >= 1 else panel.bad_text
    match panel.unit:
        case Unit.SHARE:
            return f"{_short(100 * value)} %"
        case Unit.SECONDS:
            return _seconds(value)
        case _:
            return _counted(value, _SUFFIXES[panel.unit])


def name_of(legend: str, labels: Mapping[str, str]) -> str:
    """Return the name of a series: `{{label}}` is the value of a label."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend)


def _counted(value: float, suffix: str) -> str:
    for size, letter in _LARGE:
        if abs(value) >= size:
            return f"{_short(value / size)} {letter}{suffix.lstrip()}"
    gap = " " if suffix[:1] == "B" else ""
    return f"{_short(value)}{gap}{suffix}"


def _seconds(value: float) -> str:
    for size, word in _TIMES:
        if abs(value) >= size:
            return f"{_short(value / size)} {word}"
    return f"{_short(value)} s" if value == 0 or abs(value) >= 1 else f"{_short(1000 * value)} ms"


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
