"""Small plots as SVG, with the least, the most and the last value in words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ducklake_streaming.metrics.history import Values
from ducklake_streaming.metrics.markup import Markup, tag

WIDTH, HEIGHT, EDGE = 240.0, 48.0, 3.0


@dataclass(frozen=True, slots=True)
class Plot:
    """A line of values. `show` writes one; `kind` names its colour."""

    title: str
    values: Values
    show: Callable[[float], str]
    kind: str


def draw(plot: Plot) -> Markup:
    """Return the plot with its title and its numbers; one that knows nothing says so."""
    known = [value for value in plot.values if value is not None]
    if not known:
        return _figure(plot, tag("p", "nothing yet", class_="none"), "–")
    last = plot.show(known[-1])
    words = f"least {plot.show(min(known))}, most {plot.show(max(known))}"
    label = f"{plot.title}: last {last}, {words}"
    svg = tag(
        "svg",
        *_shapes(plot.values, max(known)),
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
    return _figure(plot, svg, last, words)


def _figure(plot: Plot, drawn: Markup, last: str, words: str = "") -> Markup:
    caption = tag("figcaption", tag("span", plot.title), tag("b", last))
    return tag("figure", caption, drawn, tag("small", words), class_=f"plot {plot.kind}")


def _shapes(values: Values, most: float) -> list[Markup]:
    """Return an area and a line for each run of values without a gap; a dot where one stands alone."""
    shapes = []
    for run in _runs(_places(values, most)):
        (left, first), (right, last) = run[0], run[-1]
        if len(run) == 1:
            left, right = max(0.0, left - 1), min(WIDTH, right + 1)
        places = [(left, first), *run[1:-1], (right, last)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        shapes.append(tag("polygon", points=f"{left:.1f},{HEIGHT:g} {line} {right:.1f},{HEIGHT:g}"))
        shapes.append(tag("polyline", points=line, vector_effect="non-scaling-stroke"))
    return shapes


def _places(values: Values, most: float) -> list[tuple[float, float] | None]:
    step, room = WIDTH / max(1, len(values) - 1), HEIGHT - 2 * EDGE
    return [
        None if value is None else (number * step, HEIGHT - EDGE - (value / most * room if most else 0.0))
        for number, value in enumerate(values)
    ]


def _runs(places: Sequence[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    """Return the places that follow each other, without the gaps."""
    runs: list[list[tuple[float, float]]] = [[]]
    for place in places:
        if place is not None:
            runs[-1].append(place)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]
