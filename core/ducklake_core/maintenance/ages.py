"""Ages as users give them, and those that options of the lake tell."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeAlias, TypeVar

from ducklake_core.catalog import queries
from ducklake_core.catalog.options import options_of
from ducklake_core.catalog.session import Session
from ducklake_core.errors import InvalidInput
from ducklake_core.maintenance.run import Maintained
from ducklake_core.spec.options import TableOptions
from ducklake_core.spec.quantities import parse_duration, parse_interval

Age: TypeAlias = float | str | timedelta  # a week is '7d', '7 days', 604800 or timedelta(days=7)
AnyAge = TypeVar("AnyAge")


def age_of(name: str, value: Age) -> timedelta:
    """Return an age as users give it; raise InvalidInput."""
    return _told(name, value, parse_duration)


def _told(name: str, value: AnyAge, parse: Callable[[AnyAge], timedelta]) -> timedelta:
    try:
        return parse(value)
    except ValueError as error:
        raise InvalidInput(f"{name} is {value!r}, but must be {error}") from error


def option_age(lake: Maintained, name: str) -> timedelta | None:
    """Return the age that an option of the lake tells, None where it is not set."""

    def read(session: Session) -> str | None:
        return TableOptions.of_lake(options_of(queries.metadata(session.tables).ask(session))).texts.get(name)

    text = lake.database.ask(read)
    return _told(f"the lake's option '{name}'", text, parse_interval) if text else None
