"""Ages as users give them, and those that options of the lake tell."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

from ducklake_core.catalog import queries
from ducklake_core.catalog.options import options_of
from ducklake_core.catalog.session import Session
from ducklake_core.errors import InvalidInput
from ducklake_core.maintenance.run import Maintained
from ducklake_core.spec.options import TableOptions
from ducklake_core.spec.quantities import parse_duration

Age: TypeAlias = float | str | timedelta  # a week is '7d', '7 days', 604800 or timedelta(days=7)


def age_of(name: str, value: Age) -> timedelta:
    """Return an age as users give it; raise InvalidInput."""
    try:
        return parse_duration(value)
    except ValueError as error:
        raise InvalidInput(f"{name} is {value!r}, but must be {error}") from error


def option_age(lake: Maintained, name: str) -> timedelta | None:
    """Return the age that an option of the lake tells, None where it is not set."""

    def read(session: Session) -> str | None:
        return TableOptions.of_lake(options_of(queries.metadata(session.tables).ask(session))).texts.get(name)

    text = lake.database.ask(read)
    return age_of(f"the lake's option '{name}'", text) if text else None
