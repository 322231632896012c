"""Sections as tables of the page. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ducklake_streaming.metrics.markup import Markup, tag
from ducklake_streaming.overview.fields import Field, Row, plain_text
from ducklake_streaming.overview.lake_state import Section
from ducklake_streaming.overview.values import shown_count

MAX_ROWS = 100  # a lake may have thousands of tables, and the page is made anew every two seconds
# What a narrow screen may break, because it is long.
_LONG = frozenset({"changes", "offsets", "reason", "text", "detail", "error"})


def section_block(section: Section) -> Markup:
    """Return a section with its title; one without rows says so."""
    return tag("section", tag("h2", section.title), section_table(section), class_=f"of-{section.kind}")


def section_table(section: Section) -> Markup:
    """Return the rows of a section."""
    if not section.rows:
        return tag("p", section.empty, class_="none")
    rows, more = section.rows[:MAX_ROWS], len(section.rows) - MAX_ROWS
    fields = [field for field in section.fields if any(_shown(field, row) for row in rows)]
    head = tag("tr", *(tag("th", field.title, scope="col", class_=_class(field)) for field in fields))
    note = (
        tag("p", f"and {shown_count(more)} more, which `ducklake-stream status` shows", class_="none")
        if more > 0
        else None
    )
    return tag("div", tag("table", tag("thead", head), tag("tbody", *_lines(fields, rows))), note, class_="wide")


def _lines(fields: Sequence[Field], rows: Sequence[Row]) -> list[Markup]:
    return [
        tag("tr", *(tag("td", _shown(field, row), class_=_class(field)) for field in fields), class_=_mood(row))
        for row in rows
    ]


def _shown(field: Field, row: Row) -> str:
    """Return a value as `status` shows it: in one line, without control characters, and not yet escaped."""
    value = row.get(field.key)
    return "" if value is None else plain_text(field.show(value))


def _class(field: Field) -> str | None:
    return "number" if field.is_number else "long" if field.key in _LONG else None


def _mood(row: Row) -> str | None:
    return "bad" if row.get("outcome") == "failed" or row.get("expired") is True else None
