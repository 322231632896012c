"""`docs/log-events.md` has every event that can be logged, with its fields, and nothing else."""

import ast
import logging
import re
from pathlib import Path

import pytest

from ducklake_core.observe import Event
from tests.docs.log_events import LOGGERS, event_classes, fields_of, meaning_of, samples, with_events
from tests.docs.option_tables import DOCS

ROOT = Path(__file__).parents[2]
PAGE = (DOCS / "log-events.md").read_text()
KINDS = event_classes()
SOURCES = [path for name in ("core", "sinks", "sources", "streaming") for path in (ROOT / name).rglob("*.py")]
# They make lines of events, and call what makes lines.
MAKERS = {"core/ducklake_core/log_lines.py", "core/ducklake_core/recording.py"}


def rows_of(page: str) -> dict[str, list[str]]:
    """Return the cells of each event's row."""
    rows = re.findall(r"^\| `(\w+)` \| ((?:DEBUG|INFO|WARNING|ERROR).*) \|$", page, re.MULTILINE)
    assert len({name for name, _ in rows}) == len(rows)
    return {name: cells.split(" | ") for name, cells in rows}


def test_the_page_is_made_from_the_code() -> None:
    assert with_events(PAGE) == PAGE, "run `make docs`"


def test_the_page_has_each_event_once_and_no_other() -> None:
    assert list(rows_of(PAGE)) == [kind.line for logger in LOGGERS for kind in KINDS if kind.logger.name == logger]
    assert {kind.logger.name for kind in KINDS} == set(LOGGERS)
    assert len({kind.line for kind in KINDS}) == len(KINDS)
    assert len(KINDS) > 40


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_page_has_exactly_the_fields_of_an_event(kind: type[Event]) -> None:
    repeated = {"times", *(f"total_{name}" for name in kind.summed)} if kind.repeats_by is not None else set()

    assert samples(kind), "tests/fixtures/events.py has none"
    assert set(re.findall(r"`(\w+)`", rows_of(PAGE)[kind.line][1])) == set(fields_of(kind)) | repeated
    assert literals_in_facts(kind) <= set(fields_of(kind))


def literals_in_facts(kind: type[Event]) -> set[str]:
    """Return the names that the method `facts` of a class writes out."""
    path = next(path for path in SOURCES if str(path).endswith(f"/{kind.__module__.replace('.', '/')}.py"))
    [node] = [one for one in ast.parse(path.read_text()).body if getattr(one, "name", None) == kind.__name__]
    methods = [one for one in ast.walk(node) if isinstance(one, ast.FunctionDef) and one.name == "facts"]
    dicts = [one for method in methods for one in ast.walk(method) if isinstance(one, ast.Dict)]
    return {key.value for one in dicts for key in one.keys if isinstance(key, ast.Constant)}  # type: ignore[misc] # texts


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_a_warning_or_worse_says_what_to_do(kind: type[Event]) -> None:
    meaning, to_do = meaning_of(kind)
    is_loud = any(event.severity() >= logging.WARNING for event in samples(kind))

    assert meaning
    assert to_do or not is_loud
    assert "|" not in meaning + to_do


def test_each_field_is_explained_once() -> None:
    explained = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (?!DEBUG|INFO|WARNING|ERROR)", fields_section(), re.MULTILINE)
    names = [name for cell in explained for name in re.findall(r"\w+", cell)]
    used = {name for kind in KINDS for name in fields_of(kind)}

    assert sorted(names) == sorted(used)


def fields_section() -> str:
    return PAGE.partition("## Fields\n")[2].partition("\n## ")[0]


def test_nothing_is_logged_that_is_no_event() -> None:
    """Whoever logs past the events has a line that the page does not know."""
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        if str(path.relative_to(ROOT)) not in MAKERS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _logs(node.func)
    ]

    assert calls == []


def _logs(called: ast.expr) -> bool:
    match called:
        case ast.Name(id="log_event" | "log_with_traceback"):
            return True
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            is_logger = name.lower().strip("_") in ("log", "logger", "logging")
            return is_logger and attribute in ("debug", "info", "warning", "error", "exception", "critical", "log")
    return False
