"""Draws a dashboard's panels as SVG, from what its queries return. It looks a little like Grafana, and is not.

For the pictures of the documentation: what a panel shows, drawn from real numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from math import ceil, floor, isfinite, log10
from typing import Protocol

from grafana.generator.build import places
from grafana.generator.texts import name_of, told
from grafana.generator.values import Dashboard, Look, Panel

COLUMN, LINE, GAP = 50, 24, 8  # pixels of a grid field, and between panels
WIDTH = 24 * COLUMN + GAP
HEAD = 64
COLOURS = ("#3274d9", "#e0752d", "#2f9e5f", "#a352cc", "#d44a3a", "#1f9ba6", "#8a6d00", "#c15c99", "#5f6b7a")
MOST_NAMES, MOST_LINES = 6, 3  # in a legend


class Series(Protocol):
    """One series of a query's result."""

    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def points(self) -> Sequence[tuple[float, float]]: ...


@dataclass(frozen=True, slots=True)
class Curve:
    """A named series of a panel."""

    name: str
    points: tuple[tuple[float, float], ...]


Results = Mapping[str, Sequence[Series]]  # by the text of the query


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, in pixels."""

    x: float
    y: float
    w: float
    h: float


def draw(dashboard: Dashboard, results: Results) -> str:
    """Return the picture. `results`: what each query has returned over one range of time."""
    parts: list[str] = []
    top = HEAD
    for row in dashboard.rows:
        parts.append(_text(GAP, top + 17, row.title, size=14, weight=600))
        bottom = top + LINE
        for panel, place in places(row.panels, 0):
            y = top + LINE + place.y * LINE
            box = Box(place.x * COLUMN + GAP, y, place.w * COLUMN - GAP, place.h * LINE - GAP)
            parts += _panel(panel, box, results)
            bottom = max(bottom, y + place.h * LINE)
        top = bottom + GAP
    return _page(dashboard, top, parts)


def _page(dashboard: Dashboard, height: int, parts: Sequence[str]) -> str:
    note = "A rendering of the panels from a test's run, not a picture of Grafana."
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="Inter, Helvetica, Arial, sans-serif" role="img">'
        f"<title>{escape(dashboard.title)}</title>"
        f'<rect width="{WIDTH}" height="{height}" fill="#f4f5f7"/>'
    )
    titles = [_text(GAP, 26, dashboard.title, size=18, weight=600), _text(GAP, 46, note, size=12, colour="#6b7280")]
    return "\n".join([head, *titles, *parts, "</svg>", ""])


def _panel(panel: Panel, box: Box, results: Results) -> Iterator[str]:
    yield _rect(box, "#ffffff", stroke="#dde1e8")
    yield _text(box.x + 10, box.y + 19, panel.title, size=12.5, weight=600)
    found = [curve for query in panel.queries for curve in _curves(query.legend, results.get(query.text, ()))]
    # Those that reach highest first: a legend has room for a few names, and most causes of failures are at 0.
    curves = found if panel.look is Look.NUMBER else sorted(found, key=lambda one: -max(v for _, v in one.points))
    if not curves:
        yield _text(box.x + 10, box.y + 50, "no data", size=12, colour="#9aa1ac")
    elif panel.look is Look.NUMBER:
        yield from _numbers(panel, box, curves)
    else:
        inner = Box(box.x + 66, box.y + 32, box.w - 78, box.h - 32 - 18 - 18 * _legend_lines(box, curves) - 8)
        yield from _plot(panel, inner, _stacked(curves) if panel.look is Look.STACK else curves)
        yield from _legend(box, curves)


def _curves(legend: str, found: Sequence[Series]) -> Iterator[Curve]:
    for series in sorted(found, key=lambda one: sorted(one.labels.items())):
        points = tuple((t, v) for t, v in series.points if isfinite(v))
        if points:
            yield Curve(name_of(legend, series.labels), points)


def _stacked(curves: Sequence[Curve]) -> list[Curve]:
    sums: dict[float, float] = {}
    stacked = []
    for curve in curves:
        points = []
        for time, value in curve.points:
            sums[time] = sums.get(time, 0.0) + value
            points.append((time, sums[time]))
        stacked.append(Curve(curve.name, tuple(points)))
    return stacked


def _numbers(panel: Panel, box: Box, curves: Sequence[Curve]) -> Iterator[str]:
    shown = curves[:MOST_NAMES]
    width = (box.w - 20) / len(shown)
    longest = max(len(told(panel, curve.points[-1][1])) for curve in shown)
    for index, curve in enumerate(shown):
        value, x = curve.points[-1][1], box.x + 10 + index * width
        size = min(24.0, 1.5 * width / longest)
        yield _text(x, box.y + 52, told(panel, value), size=size, weight=600, colour=_colour(panel, value))
        yield _text(x, box.y + 72, _cut(curve.name, width - 6), size=11, colour="#6b7280")


def _colour(panel: Panel, value: float) -> str:
    if panel.good_text:
        return "#2f9e5f" if value >= 1 else "#d44a3a"
    return "#d44a3a" if panel.bad_from is not None and value >= panel.bad_from else "#1f2937"


def _plot(panel: Panel, box: Box, curves: Sequence[Curve]) -> Iterator[str]:
    times = [time for curve in curves for time, _ in curve.points]
    first, last = min(times), max(*times, min(times) + 1)
    highest = max(value for curve in curves for _, value in curve.points)
    top, step = _scale(max(highest, 2 * (panel.bad_from or 0.0)))
    yield from _grid(panel, box, top, step)
    yield from _clock(box, first, last)
    for index, curve in reversed(list(enumerate(curves))):
        places_ = [
            (box.x + box.w * (t - first) / (last - first), box.y + box.h * (1 - max(v, 0) / top))
            for t, v in curve.points
        ]
        yield from _line(box, places_, COLOURS[index % len(COLOURS)], is_filled=panel.look is Look.STACK)
    if panel.bad_from is not None and panel.bad_from <= top:
        y = box.y + box.h * (1 - panel.bad_from / top)
        yield f'<path d="M{box.x:.1f} {y:.1f}h{box.w:.1f}" stroke="#d44a3a" stroke-dasharray="4 4"/>'


def _scale(highest: float) -> tuple[float, float]:
    """Return the top of the axis and the distance of its lines: 1, 2 or 5 times a power of ten."""
    if highest <= 0:
        return 1.0, 0.5
    power = 10.0 ** floor(log10(highest / 3))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if highest / (power * factor) <= 4)
    return step * ceil(highest / step * 1.0001), step


def _grid(panel: Panel, box: Box, top: float, step: float) -> Iterator[str]:
    for number in range(round(top / step) + 1):
        y = box.y + box.h * (1 - number * step / top)
        yield f'<path d="M{box.x:.1f} {y:.1f}h{box.w:.1f}" stroke="#eceff3"/>'
        label = told(panel, number * step)
        yield _text(box.x - 6, y + 3.5, label, size=10, colour="#6b7280", anchor="end")


def _clock(box: Box, first: float, last: float) -> Iterator[str]:
    for share in (0.0, 0.5, 1.0):
        at = datetime.fromtimestamp(first + share * (last - first), UTC).strftime("%H:%M:%S")
        anchor = {0.0: "start", 1.0: "end"}.get(share, "middle")
        yield _text(box.x + share * box.w, box.y + box.h + 14, at, size=10, colour="#6b7280", anchor=anchor)


def _line(box: Box, points: Sequence[tuple[float, float]], colour: str, *, is_filled: bool) -> Iterator[str]:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    if is_filled:
        floor_, left, right = box.y + box.h, points[0][0], points[-1][0]
        area = f"M{left:.1f} {floor_:.1f}L{path}L{right:.1f} {floor_:.1f}Z"
        yield f'<path d="{area}" fill="{colour}" fill-opacity="0.25"/>'
    yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6" stroke-linejoin="round"/>'


def _legend_rows(box: Box, curves: Sequence[Curve]) -> list[list[tuple[int, str, float]]]:
    """Return the names in lines that fit: index of the curve, name, where it begins."""
    tried = (_lines_of_names(box, curves, most) for most in range(MOST_NAMES, 1, -1))
    return next((lines for lines in tried if len(lines) <= MOST_LINES), _lines_of_names(box, curves, 1))


def _lines_of_names(box: Box, curves: Sequence[Curve], most: int) -> list[list[tuple[int, str, float]]]:
    names = [(index, _cut(curve.name, box.w - 40)) for index, curve in enumerate(curves[:most])]
    if len(curves) > most:
        names.append((-1, f"and {len(curves) - most} more"))
    rows: list[list[tuple[int, str, float]]] = [[]]
    left = 0.0
    for index, name in names:
        width = 24 + 6.0 * len(name)
        if left + width > box.w - 20 and rows[-1]:
            rows.append([])
            left = 0.0
        rows[-1].append((index, name, left))
        left += width
    return rows


def _legend_lines(box: Box, curves: Sequence[Curve]) -> int:
    return len(_legend_rows(box, curves))


def _legend(box: Box, curves: Sequence[Curve]) -> Iterator[str]:
    rows = _legend_rows(box, curves)
    for number, row in enumerate(rows):
        y = box.y + box.h - 10 - 18 * (len(rows) - 1 - number)
        for index, name, left in row:
            x = box.x + 12 + left
            if index >= 0:
                yield _rect(Box(x, y - 8, 10, 4), COLOURS[index % len(COLOURS)])
            yield _text(x + 14, y - 2, name, size=10.5, colour="#374151")


def _cut(name: str, width: float) -> str:
    most = max(int(width / 6), 4)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _rect(box: Box, fill: str, stroke: str = "none") -> str:
    return (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.w:.1f}" height="{box.h:.1f}" rx="3" fill="{fill}" '
        f'stroke="{stroke}"/>'
    )


def _text(
    x: float, y: float, text: str, *, size: float, weight: int = 400, colour: str = "#1f2937", anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )
