"""The tables of `docs/scaling.md`, as the measured numbers have them. Pure but for `write_page`.

Each is found on the page by its head, which nobody else's table has; what is said around them is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.scaling_model import Costs, prediction_lines

PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
Measured: TypeAlias = Mapping[str, Any]  # Any: JSON
_COLUMNS = 23  # of the table that is measured


def write_page(measured: Measured, page: Path = PAGE) -> None:
    """Put the numbers into the tables of the page."""
    page.write_text(with_tables(page.read_text(), measured))


def with_tables(text: str, measured: Measured) -> str:
    """Return a page whose tables have the numbers; raise ValueError where one is missing."""
    costs = Costs.fit(measured)
    tables = [cost_lines(measured, costs), stream_lines(measured), group_lines(measured)]
    for lines in [*tables, error_lines(costs, measured), prediction_lines(costs)]:
        text = _with_table(text, lines)
    return text


def _with_table(text: str, lines: Sequence[str]) -> str:
    table = re.compile(rf"^{re.escape(lines[0])}\n(\|.*\n)*", re.MULTILINE)
    text, count = table.subn(lambda _: "".join(f"{line}\n" for line in lines), text)
    if count != 1:
        raise ValueError(f"the page must have one table with the head '{lines[0]}', and has {count}")
    return text


def cost_lines(measured: Measured, costs: Costs) -> list[str]:
    """Return what each part costs."""
    of_file = costs.file_bytes
    rows = {
        "a commit of 10 inlined rows, alone": f"{measured['commit_ms_median']['1']:.1f} ms",
        f"each file in a commit of executors' files, {_COLUMNS} columns": f"{1000 * costs.register.each:.0f} µs",
        "each file of a table, when a read is planned": f"{1000 * costs.plan.each:.0f} µs",
        "each table of the lake, when a lake is opened and a table found": f"{1000 * costs.open.each:.0f} µs",
        f"each file in a task's message to the driver, {_COLUMNS} columns": f"{costs.message.each:,.0f} bytes",
        "each snapshot in the catalog (1 row inlined, then flushed)": f"{costs.snapshot_bytes:,} bytes",
        f"each table in the catalog, {_COLUMNS} columns": f"{costs.table_bytes:,} bytes",
        "each file in the catalog": f"{of_file.base:.0f} bytes and {of_file.each:.0f} for each column",
    }
    return _table("| what | measured |", "|---|---|", rows.items())


def stream_lines(measured: Measured) -> list[str]:
    """Return how many commits some streams make together."""
    alone = next(iter(measured["commits_per_second"].values()))
    rows = [
        (
            n,
            f"{rate:.0f}",
            f"{rate / alone:.2f}",
            f"{measured['attempts_per_commit'][n]:.1f}",
            f"{measured['commit_ms_median'][n]:.0f} ms",
            f"{measured['commit_ms_p99'][n]:.0f} ms",
        )
        for n, rate in measured["commits_per_second"].items()
    ]
    head = "| streams | commits per second | against 1 stream | attempts per commit | median of a commit | 99 % |"
    return _table(head, "|--:|--:|--:|--:|--:|--:|", rows)


def group_lines(measured: Measured) -> list[str]:
    """Return what one commit with rows for several tables costs."""
    one = measured["group"]["1"]
    rows = [(n, f"{ms / one:.1f}", f"{ms / one / int(n):.2f}") for n, ms in measured["group"].items()]
    return _table("| tables in one commit | against a commit for one | for each table |", "|--:|--:|--:|", rows)


def error_lines(costs: Costs, measured: Measured) -> list[str]:
    """Return how well the model predicts what it has not seen."""
    found = costs.errors(measured)
    rows = [(name, str(n), f"{error:+.0%}") for name, of in found.items() for n, error in of.items()]
    return _table("| series | at | error |", "|---|--:|--:|", rows)


def _table(head: str, rule: str, rows: Iterable[Sequence[str]]) -> list[str]:
    return [head, rule, *(f"| {' | '.join(row)} |" for row in rows)]
