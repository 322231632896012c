"""Rows that are shown, and the columns that people see of them. No Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, object]
# What a terminal obeys instead of showing it; a line feed or a tab would break a table.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def plain_text(value: object) -> str:
    """Return a value as people read it, in one line, without anything that a terminal would obey; None as nothing."""
    return "" if value is None else _CONTROLS.sub(lambda match: repr(match.group())[1:-1], str(value))


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table for people: the key of its values, its title and how a value is shown."""

    key: str
    title: str
    show: Callable[[Any], str] = plain_text  # Any: a value of the row
    is_number: bool = False
