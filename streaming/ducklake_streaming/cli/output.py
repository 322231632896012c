"""What commands show: tables for people, with `--json` one object per line for machines. Imports no Spark.

Colours and progress are for terminals only (rich asks, and respects NO_COLOR); a table that goes elsewhere is as wide
as it needs to be, and never folded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ducklake_streaming.overview.fields import Field, Row

_UNLIMITED_WIDTH = 100_000


class Screen(Console):
    """A console which leaves a reader that is gone, as in `… | head`, to `app.Program`."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def make_screen(*, error: bool = False) -> Screen:
    """Return the console of stdout, or of stderr: for progress and warnings."""
    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() else _UNLIMITED_WIDTH
    return Screen(stderr=error, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


@dataclass(frozen=True, slots=True)
class Output:
    """Where and how a command shows what it has found."""

    as_json: bool = False

    def show(self, fields: Sequence[Field], rows: Iterable[Row], *, title: str | None = None, empty: str = "") -> None:
        """Show rows; JSON has all their keys, the table for people the fields. `empty`: said where there are none."""
        if self.as_json:
            for row in rows:
                print(json_line(row))
            return
        table = make_table(fields, rows)
        screen = make_screen()
        if title is not None:
            screen.print(Text(title, style="bold"))
        if table.row_count or not empty:
            screen.print(table)
        else:
            screen.print(empty)

    def show_one(self, fields: Sequence[Field], row: Row) -> None:
        """Show one row: as lines of a title and a value each."""
        if self.as_json:
            print(json_line(row))
            return
        make_screen().print(facts_table(fields, row))


def facts_table(fields: Sequence[Field], row: Row) -> Table:
    """Return one row as lines of a title and a value each."""
    lines = [{"title": field.title, "value": field.show(row.get(field.key))} for field in fields]
    table = make_table((Field("title", ""), Field("value", "")), lines)
    table.show_header = False
    return table


def make_table(fields: Sequence[Field], rows: Iterable[Row]) -> Table:
    """Return a table of rich without lines: it can be read, copied and searched."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for field in fields:
        table.add_column(field.title, justify="right" if field.is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(field.show(row.get(field.key))) for field in fields))
    return table


def json_line(row: Row) -> str:
    """Return a row as one line of JSON: times by ISO 8601, bytes in hexadecimal, times that last in seconds."""
    return json.dumps(row, default=_json_value, ensure_ascii=False, allow_nan=False)


def _json_value(value: object) -> object:
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return value.hex()
    return str(value)
