"""Pictures of dashboards: what is drawn for numbers, names and nothing at all, and that the docs have one of each."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import pytest

from grafana.generator.boards import DASHBOARDS
from grafana.generator.draw import draw
from grafana.generator.texts import name_of, told
from grafana.generator.values import Dashboard, Look, Panel, Query, Row, Unit

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True, slots=True)
class Found:
    labels: dict[str, str]
    points: tuple[tuple[float, float], ...]


def picture(panel: Panel, *found: Found) -> ET.Element:
    board = Dashboard("one", "One", "A dashboard.", (Row("row", (panel,)),))
    return ET.fromstring(draw(board, {panel.queries[0].text: found}))  # noqa: S314 # our own text


def texts(element: ET.Element) -> list[str]:
    return [one.text or "" for one in element.iter(f"{SVG}text")]


def panel(look: Look = Look.LINES, unit: Unit = Unit.COUNT, good: str = "", bad: str = "") -> Panel:
    return Panel("Title", "Help.", (Query("q", "{{table}}"),), unit, look, good_text=good, bad_text=bad)


@pytest.mark.parametrize("look", Look)
def test_names_of_data_are_escaped(look: Look) -> None:
    hostile = '<script>&"'

    assert hostile in texts(picture(panel(look), Found({"table": hostile}, ((1.0, 1.0), (2.0, 3.0)))))


@pytest.mark.parametrize("found", [(), (Found({}, ()),), (Found({}, ((1.0, float("nan")),)),)], ids=str)
def test_a_panel_without_numbers_says_so(found: tuple[Found, ...]) -> None:
    assert "no data" in texts(picture(panel(), *found))


@pytest.mark.parametrize("values", [(0.0,), (1e-9, 2e-9), (1e12, -5.0), (5.0,) * 50], ids=str)
@pytest.mark.parametrize("look", Look)
def test_any_numbers_can_be_drawn(values: tuple[float, ...], look: Look) -> None:
    series = [Found({"table": f"t{n}"}, tuple(enumerate(values))) for n in range(9)]

    assert "and 3 more" in texts(picture(panel(look), *series)) or look is Look.NUMBER


@pytest.mark.parametrize(
    ("shown", "value", "expected"),
    [
        (panel(unit=Unit.SECONDS), 0.0125, "12.5 ms"),
        (panel(unit=Unit.SECONDS), 90.0, "1.5 min"),
        (panel(unit=Unit.BYTES), 64e6, "64 MB"),
        (panel(unit=Unit.ROWS_PER_SECOND), 1500.0, "1.5 krows/s"),
        (panel(unit=Unit.SHARE), 0.0144, "1.44 %"),
        (panel(), 12.0, "12"),
        (panel(good="runs", bad="is dead"), 1.0, "runs"),
        (panel(good="runs", bad="is dead"), 0.0, "is dead"),
    ],
)
def test_numbers_are_told_as_people_read_them(shown: Panel, value: float, expected: str) -> None:
    assert told(shown, value) == expected


def test_a_series_is_named_by_its_labels() -> None:
    assert name_of("{{pipeline}}: {{cause}}", {"pipeline": "orders"}) == "orders: "


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
def test_docs_show_a_picture_of_each_dashboard_with_all_its_panels(board: Dashboard) -> None:
    """`make dashboard-pictures` mends it."""
    file = f"images/dashboard-{board.name}.svg"
    shown = texts(ET.parse(DOCS / file).getroot())  # noqa: S314 # our own file

    assert f"({file})" in (DOCS / "dashboards.md").read_text()
    assert [one.title for one in board.panels if one.title not in shown] == []
    assert [row.title for row in board.rows if row.title not in shown] == []
    assert "no data" not in shown
