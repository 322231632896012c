"""Takes secrets out of what the page shows, before anything is made of it: names of fields and markup stay. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from ducklake_streaming.metrics.page_facts import PageFacts
from ducklake_streaming.overview.lake_state import LakeState

Redact = Callable[[str], str]


def hide_secrets(facts: PageFacts, redact: Redact) -> PageFacts:
    """Return the facts, each text in them as `redact` returns it."""
    return replace(
        facts,
        run=_hidden(facts.run, redact),
        plots={redact(name): plots for name, plots in facts.plots.items()},
        inlined={redact(name): values for name, values in facts.inlined.items()},
        lake=None if facts.lake is None else _lake(facts.lake, redact),
        problem=None if facts.problem is None else redact(facts.problem),
    )


def _lake(lake: LakeState, redact: Redact) -> LakeState:
    sections = tuple(replace(one, rows=_hidden(one.rows, redact)) for one in lake.sections)
    return replace(lake, lake=_hidden(lake.lake, redact), sections=sections)


def _hidden(value: Any, redact: Redact) -> Any:  # Any: a value of a row, or rows, or a record of them
    if isinstance(value, str):
        return value if isinstance(value, Enum) else redact(value)  # our own words are no secrets
    if isinstance(value, Mapping):
        return {key: _hidden(one, redact) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_hidden(one, redact) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: _hidden(getattr(value, one.name), redact) for one in fields(value)})
    return value
