"""The page for people in a real browser: live with scripts, whole without, and nobody's names are markup."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest

from ducklake_core.errors import CatalogUnavailable, CommitConflict
from ducklake_core.observe import Event, Flushed, Recorders
from ducklake_core.pending import AddedCount
from ducklake_sinks.report import BatchFailed, BatchReport, DeadLettersKept
from ducklake_streaming.jobs.events import PipelineFailed, PipelineStarted
from ducklake_streaming.jobs.exit_codes import ExitCode
from ducklake_streaming.metrics.status_page import StatusPage
from tests.fixtures.browser import Tab
from tests.fixtures.pages import read_lake, serving
from tests.fixtures.waiting import wait_until

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)><b id=marker>&amp;"
TABLES = {"main.orders": 40, "main.payments": 3}


@dataclass
class Shown:
    """A page that is served: `address` for the browser, and who tells it what happens."""

    page: StatusPage
    address: str
    numbers: Iterator[int] = field(default_factory=count)

    def record(self, *events: Event, pipeline: str = "orders") -> None:
        recorder = Recorders(self.page.run, self.page.run.recorder(pipeline))
        for event in events:
            recorder.record(event)

    def commit(self, rows: int, pipeline: str = "orders") -> None:
        names = {"stream": pipeline, "batch": (number := next(self.numbers))}
        added = {"main.orders": AddedCount(rows, 8 * rows, 0, 0, 0)}
        report = BatchReport(names, 100 + number, added, 0, {"commit": 0.01, "total": 0.042})
        self.record(report, pipeline=pipeline)


@pytest.fixture
def shown() -> Iterator[Shown]:
    page = StatusPage()
    page.run.expect("orders")
    page.run.expect("payments")
    with serving(page.routes()) as address:
        yield Shown(page, address)


def wait_for_text(tab: Tab, *words: str) -> None:
    wait_until(lambda: all(word in tab.text for word in words), lambda: tab.text)


def test_it_shows_what_pipelines_do_and_what_is_in_the_lake(shown: Shown, tab: Tab, tmp_path: Path) -> None:
    for name in ("orders", "payments"):
        shown.record(PipelineStarted(name), pipeline=name)
    shown.commit(40)
    shown.record(Flushed("main.orders", 5_000, 1, 123_000, 7, 0.3))
    shown.record(DeadLettersKept({"stream": "orders"}, "main.orders", 2, "main.dead", "'x' is no bigint"))
    shown.page.hear_lake(read_lake(tmp_path, TABLES))
    shown.page.hear_lag("orders", 1234)

    tab.open(shown.address)

    for words in ("running", "42 ms", "main.orders", "main.payments", "1,234", "5,000", "'x' is no bigint", "123 kB"):
        assert words in tab.text
    titles = json.loads(tab.evaluate("JSON.stringify([...document.querySelectorAll('h2')].map(e => e.innerText))"))
    assert titles == [
        "Pipelines, the last 2m",
        "Inlined rows, not flushed yet",
        "Tables",
        "Consumers of changes",
        "Recent snapshots",
        "Dead letters",
        "Last dead letters",
        "Last maintenance",
        "Last flushes",
        "Last warnings",
        "Streams",
    ]
    assert tab.count("svg polyline") >= 4
    assert tab.count(".pill.good") == 2
    assert not tab.errors


def test_it_changes_by_itself_while_a_stream_runs(shown: Shown, tab: Tab) -> None:
    tab.open(shown.address)
    assert "no batch yet" in tab.text
    tab.evaluate("window.mark = 'not loaded anew'")

    shown.commit(777)
    wait_for_text(tab, "777")
    shown.record(PipelineFailed("orders", ExitCode.FAILED, CommitConflict("table 'main.orders' was dropped")))
    wait_for_text(tab, "failed", "table 'main.orders' was dropped")

    assert tab.evaluate("document.title") == "orders failed · ducklake-stream"
    assert tab.count(".pill.bad") == 1
    assert tab.evaluate("window.mark") == "not loaded anew"
    assert tab.count("main.live") == 1
    assert not tab.errors


def test_it_says_that_the_process_is_gone_and_comes_back_with_it(shown: Shown, tab: Tab) -> None:
    status = [200]
    with serving({"/": lambda: replace(shown.page.page(), status=status[0])}) as address:
        tab.open(address)
        wait_until(lambda: tab.count("main.live"))
        assert "not live any more" not in tab.text

        status[0] = 503
        wait_for_text(tab, "This page is not live any more")
        status[0] = 200
        wait_until(lambda: "not live any more" not in tab.text)


def test_a_catalog_that_is_away_is_said_and_what_it_told_last_stays(shown: Shown, tab: Tab, tmp_path: Path) -> None:
    shown.page.hear_lake(read_lake(tmp_path, TABLES))
    shown.page.hear_problem(CatalogUnavailable("no answer from 'db.example.com'"))

    tab.open(shown.address)

    for words in ("The catalog does not answer", "no answer from 'db.example.com'", "main.payments"):
        assert words in tab.text


def test_names_from_data_are_texts_and_never_markup(shown: Shown, tab: Tab, tmp_path: Path) -> None:
    shown.commit(5, pipeline=HOSTILE)
    shown.record(
        BatchFailed({"stream": HOSTILE}, CommitConflict(HOSTILE)),
        DeadLettersKept({"stream": HOSTILE}, HOSTILE, 1, HOSTILE, HOSTILE),
        Flushed(HOSTILE, 1, 1, 1, 1, 0.1),
        pipeline=HOSTILE,
    )
    shown.page.hear_lake(read_lake(tmp_path, {f'main."{HOSTILE.replace(chr(34), chr(34) * 2)}"': 3}))
    shown.page.hear_problem(CatalogUnavailable(HOSTILE))

    tab.open(shown.address)
    wait_until(lambda: tab.count("main.live"))  # it was drawn by the script, too

    assert tab.dialogs == []
    assert (tab.count("script"), tab.count("img"), tab.count("#marker")) == (1, 0, 0)
    assert tab.text.count(HOSTILE) >= 8
    assert HOSTILE in tab.evaluate("document.title")
    assert not tab.errors


def test_markup_that_slipped_through_would_run_nothing(shown: Shown, tab: Tab) -> None:
    """The policy in the headers is the second lock: it is tried without the first."""
    tab.open(shown.address)

    tab.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.broken = 1\">')")
    tab.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.broken = 1'}))")
    refused = tab.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', error => error.name)")

    wait_until(lambda: len(tab.errors) >= 3 or tab.evaluate("window.broken"), lambda: tab.errors)
    assert refused == "TypeError"
    assert all("Content Security Policy" in error for error in tab.errors[:3])
    assert tab.evaluate("window.broken") is None


def test_it_is_whole_without_scripts_and_loads_itself_anew(shown: Shown, tab: Tab, tmp_path: Path) -> None:
    shown.commit(40)
    shown.page.hear_lake(read_lake(tmp_path, TABLES))
    tab.disable_scripts()

    tab.open(shown.address)

    assert all(words in tab.text for words in ("running", "main.orders", "42 ms", "Recent snapshots"))
    assert "not live any more" not in tab.text
    shown.commit(777)
    wait_for_text(tab, "777")


def test_it_asks_for_nothing_but_itself(shown: Shown, tab: Tab, tmp_path: Path) -> None:
    shown.page.hear_lake(read_lake(tmp_path, TABLES))
    tab.open(shown.address)
    wait_until(lambda: tab.count("main.live"))

    assert {url for url in tab.requests if not url.startswith("data:")} == {shown.address}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_by_day_and_night(shown: Shown, tab: Tab, tmp_path: Path, scheme: str) -> None:
    shown.commit(5, pipeline="a-stream-with-a-long-name-" + "x" * 80)
    shown.record(BatchFailed({"stream": "orders"}, CommitConflict("y" * 400)))
    shown.page.hear_lake(read_lake(tmp_path, TABLES))
    tab.resize(360, 740)
    tab.prefer(scheme)

    tab.open(shown.address)

    assert tab.evaluate("document.documentElement.scrollWidth") == 360
    back, text = (tab.evaluate(f"getComputedStyle(document.body).{one}") for one in ("backgroundColor", "color"))
    assert (_brightness(back) > _brightness(text)) == (scheme == "light")
    assert abs(_brightness(back) - _brightness(text)) > 150


def _brightness(colour: str) -> float:
    red, green, blue = (int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
    return 0.3 * red + 0.6 * green + 0.1 * blue
