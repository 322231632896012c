"""The tables of log events in the docs, made from the code: `make docs` writes them, tests compare them."""

import inspect
import logging
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module

import ducklake_core
import ducklake_sinks
import ducklake_sources
import ducklake_streaming
from ducklake_core.observe import Event
from tests.fixtures.events import LINES

EVENTS = "| event | level | fields | what it means | what to do |\n|---|---|---|---|---|\n"
LOGGERS = ("ducklake_sinks", "ducklake_core", "ducklake_streaming")
_PACKAGES = (ducklake_core, ducklake_sinks, ducklake_sources, ducklake_streaming)
_TO_DO = "To do: "
_AS_IT_WAS = re.compile(r"\A(?:\|.*\n)*")


def event_classes() -> list[type[Event]]:
    """Return every event of the product that has a line, by that line."""
    for package in _PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    found = [kind for kind in _subclasses(Event) if kind.__module__.startswith("ducklake_") and "line" in vars(kind)]
    return sorted(filter(_is_in_its_module, found), key=lambda kind: kind.line)


def _is_in_its_module(kind: type[Event]) -> bool:
    """Tell whether a class is the one that its module has: a dataclass with slots is a copy of a class without."""
    return getattr(import_module(kind.__module__), kind.__name__, None) is kind


def _subclasses(kind: type[Event]) -> Iterator[type[Event]]:
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)


def samples(kind: type[Event]) -> list[Event]:
    return [event for event, _, _ in LINES if type(event) is kind]


def fields_of(kind: type[Event]) -> dict[str, bool]:
    """Return the names of an event's facts in their order, and whether each line has it."""
    facts = [event.facts() for event in samples(kind)]
    names = dict.fromkeys(name for one in facts for name in one)
    return {name: all(name in one for one in facts) for name in names}


def meaning_of(kind: type[Event]) -> tuple[str, str]:
    """Return what an event means and what to do, by its docstring: its first paragraph, and what is "To do"."""
    paragraphs = [" ".join(one.split()) for one in (inspect.getdoc(kind) or "").split("\n\n")]
    to_do = [one.removeprefix(_TO_DO) for one in paragraphs if one.startswith(_TO_DO)]
    return paragraphs[0], to_do[0] if to_do else ""


def with_events(page: str) -> str:
    """Return the page with the events of each logger, in tables under the logger's heading."""
    for logger in LOGGERS:
        before, heading, rest = page.partition(f"## Events of `{logger}`\n")
        text, head, after = rest.partition(EVENTS)
        rows = [_row(kind) for kind in event_classes() if kind.logger.name == logger]
        page = before + heading + text + head + "".join(rows) + _AS_IT_WAS.sub("", after, count=1)
    return page


def _row(kind: type[Event]) -> str:
    fields = fields_of(kind)
    always = [f"`{name}`" for name, is_always in fields.items() if is_always]
    at_times = [f"`{name}`" for name, is_always in fields.items() if not is_always]
    if kind.repeats_by is not None:
        at_times += ["`times`", *(f"`total_{name}`" for name in kind.summed)]
    told = ", ".join(always) + (f"{'; ' if always else ''}at times {', '.join(at_times)}" if at_times else "")
    meaning, to_do = meaning_of(kind)
    return f"| `{kind.line}` | {_level(kind)} | {told} | {meaning} | {to_do or 'nothing'} |\n"


def _level(kind: type[Event]) -> str:
    levels = {event.severity() for event in samples(kind)}
    loud = sorted(levels - {logging.DEBUG}) or [logging.DEBUG]
    return " or ".join(map(logging.getLevelName, loud))
