"""The page for people without a browser: what its JSON says, what it escapes, and how its plots are drawn."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.errors import CatalogUnavailable, CommitConflict
from ducklake_core.pending import AddedCount
from ducklake_sinks.report import BatchFailed, BatchReport
from ducklake_streaming.metrics.markup import Markup, joined, tag
from ducklake_streaming.metrics.page import PAGE_HEADERS, SCRIPT, STYLE
from ducklake_streaming.metrics.plots import HEIGHT, WIDTH, Plot, draw
from ducklake_streaming.metrics.status_page import StatusPage
from ducklake_streaming.overview.lake_state import LakeState
from ducklake_streaming.overview.snapshots import offsets_text
from tests.fixtures.pages import read_lake

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


def batch(rows: int) -> BatchReport:
    added = {"main.t": AddedCount(rows, 8 * rows, 0, 0, 0)}
    return BatchReport({"stream": "s", "batch": 4}, 9, added, None, {"total": 0.25})


def test_the_json_has_what_the_page_shows(tmp_path: Path) -> None:
    times = [NOW]
    page = StatusPage(now=lambda: times[0])
    page.run.recorder("p").record(batch(30))
    page.hear_lake(read_lake(tmp_path, {"main.t": 30}))
    page.hear_lag("p", 12)
    times[0] += timedelta(seconds=10)

    told = json.loads(page.facts_json().body)

    [pipeline], [last], [table] = (told["rows"][kind] for kind in ("pipeline", "batch", "table"))
    assert (pipeline["pipeline"], pipeline["state"], pipeline["rows"]) == ("p", "running", 30)
    assert (pipeline["rows_per_second"], pipeline["lag_records"]) == (3.0, 12)
    assert (last["batch"], last["rows"], last["seconds"], last["snapshot"]) == (4, 30, 0.25, 9)
    assert (table["table"], table["inlined_rows"]) == ("main.t", 30)
    assert (told["time"], told["uptime_seconds"], told["lake_age_seconds"]) == ("2026-11-17T12:00:10+00:00", 10.0, 10.0)
    assert (told["catalog_problem"], told["lake"]["snapshot"]) == (None, 2)


def test_a_page_that_knows_nothing_yet_says_so() -> None:
    page = StatusPage(now=lambda: NOW)

    text = page.page().body.decode()

    assert "The catalog has not been asked yet." in text
    assert "no pipeline has begun yet" in text
    assert json.loads(page.facts_json().body)["lake"] is None


def test_a_problem_of_the_catalog_is_shown_without_secrets_and_until_it_answers(tmp_path: Path) -> None:
    page = StatusPage(now=lambda: NOW, redact=lambda text: text.replace("hunter2", "***"))
    page.hear_problem(CatalogUnavailable("no answer with password hunter2"))
    away = page.page().body.decode()

    page.hear_lake(read_lake(tmp_path, {"main.t": 1}))

    assert "hunter2" not in away
    assert "The catalog does not answer." in away
    assert "The catalog does not answer." not in page.page().body.decode()


def test_an_answer_of_the_catalog_that_is_old_is_said_to_be(tmp_path: Path) -> None:
    times = [NOW]
    page = StatusPage(now=lambda: times[0])
    page.hear_lake(read_lake(tmp_path, {"main.t": 1}))
    times[0] += timedelta(minutes=5)

    assert "What is shown of the lake is 5m old." in page.page().body.decode()


def test_bytes_that_are_no_text_make_no_page_fail() -> None:
    page = StatusPage(now=lambda: NOW)
    page.run.recorder("p\udcff").record(BatchFailed({}, CommitConflict("not UTF-8: \udcff\x00\x1b[31m")))

    for make in page.routes().values():
        assert b"not UTF-8: ?" in make().body


def test_of_a_thousand_tables_some_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    page = StatusPage(now=lambda: NOW)
    lake = read_lake(tmp_path, {"main.t": 1})
    [section] = (one for one in lake.sections if one.kind == "table")
    many = replace(section, rows=[{**section.rows[0], "table": f"main.t{number}"} for number in range(1000)])
    page.hear_lake(replace(lake, sections=(many,)))

    text = page.page().body.decode()

    assert "and 900 more" in text
    assert ("main.t99<" in text, "main.t100<" in text) == (True, False)


def test_of_many_tables_those_with_most_inlined_rows_have_plots_whenever_they_come(tmp_path: Path) -> None:
    page = StatusPage(now=lambda: NOW)
    lake = read_lake(tmp_path, {"main.t": 1})
    [table] = lake.totals.tables

    def with_tables(rows: dict[str, int]) -> LakeState:
        tables = [replace(table, name=name, inlined=replace(table.inlined, rows=n)) for name, n in rows.items()]
        return replace(lake, totals=replace(lake.totals, tables=tuple(tables)))

    many = {f"main.t{number}": 1 for number in range(500)}
    page.hear_lake(with_tables(many))
    page.hear_lake(with_tables({**many, "main.late": 1000}))

    assert page.facts().inlined["main.late"][-1] == 1000
    page.hear_lake(with_tables({"main.late": 0}))
    assert page.facts().inlined["main.late"][-1] == 0
    assert set(page.facts().inlined) == {"main.late"}


@given(st.text())
def test_a_text_is_never_markup(text: str) -> None:
    shown = tag("p", text, title=text)

    assert re.fullmatch(r'<p title="[^"<>]*">[^<>]*</p>', shown, re.DOTALL)


def test_what_was_built_is_not_escaped_again_and_none_is_left_out() -> None:
    inner = tag("b", "1 < 2", class_="x", aria_label=None)

    assert joined([inner, None, " & "]) == '<b class="x">1 &lt; 2</b> &amp; '
    assert isinstance(joined([inner]), Markup)


def test_the_policy_allows_this_script_and_style_and_nothing_else() -> None:
    policy = PAGE_HEADERS["Content-Security-Policy"]

    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "</" not in SCRIPT + STYLE
    assert "http" not in SCRIPT + STYLE


@given(st.lists(st.none() | st.floats(0, 1e12), max_size=130))
def test_a_line_stays_inside_its_plot(values: list[float | None]) -> None:
    drawn = draw(Plot("rows/s", values, "{:.0f}".format, "rows"))

    places = [place.split(",") for points in re.findall(r'points="([^"]*)"', drawn) for place in points.split()]
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in places)
    assert ("nothing yet" in drawn) == (not any(value is not None for value in values))


def test_a_gap_is_no_line_and_the_numbers_are_in_words() -> None:
    drawn = draw(Plot("rows/s", [None, 1, 3, None, 2], "{:.0f}".format, "rows"))

    assert drawn.count("<polyline") == 2
    assert 'aria-label="rows/s: last 2, least 1, most 3"' in drawn


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([{"orders": {"1": 7, "0": 12}}], "orders 0:12 1:7"),
        ([{"b": {"0": 1}}, {"a": {"10": 3, "9": 2}}], "a 9:2 10:3, b 0:1"),
        ([7, None], None),
        (None, None),
    ],
    ids=["one topic", "several sources", "no Kafka", "none"],
)
def test_offsets_of_a_snapshot_are_told_by_topic_and_partition(told: object, expected: str | None) -> None:
    assert offsets_text(told) == expected
