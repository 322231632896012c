"""When inlined rows are flushed to Parquet: a policy of thresholds, and the decision by them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from ducklake_core.errors import InvalidInput
from ducklake_core.spec.quantities import parse_duration, parse_size


class Inlined(Protocol):
    """What the catalog holds for one table: `ducklake_core.InlinedState`, or a count kept by the sink."""

    @property
    def rows(self) -> int: ...
    @property
    def ended_rows(self) -> int: ...
    @property
    def file_deletes(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def oldest(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True, init=False)
class FlushPolicy:
    """Flush a table's inlined rows as soon as one threshold is reached; None: never for that reason.

    `bytes` is a number or a text such as `64MB`, `age` seconds or a text such as `5m`, counted from the oldest row.
    `deletes` counts rows that are deleted: inlined ones that ended, and positions of files kept in the catalog.
    `budget` is how long a batch may wait, at most, for a flush that has fallen behind by four thresholds.
    `keep_superseded` is how long empty tables of inlined rows stay for DuckDB's open sessions: `Lake.flush_inlined`.
    """

    rows: int | None
    bytes: int | None
    age: timedelta | None
    deletes: int | None
    budget: timedelta
    keep_superseded: timedelta

    def __init__(
        self,
        rows: int | None = 100_000,
        bytes: int | str | None = "64MB",  # noqa: A002 # the word users know
        age: float | str | timedelta | None = "5m",
        deletes: int | None = 10_000,
        budget: float | str | timedelta = "2s",
        keep_superseded: float | str | timedelta = "1h",
    ) -> None:
        problems: list[str] = []
        fields = {
            "rows": _parsed(problems, "rows", rows, parse_count),
            "bytes": _parsed(problems, "bytes", bytes, parse_size),
            "age": _parsed(problems, "age", age, parse_duration),
            "deletes": _parsed(problems, "deletes", deletes, parse_count),
            "budget": _parsed(problems, "budget", budget, parse_duration),
            "keep_superseded": _parsed(problems, "keep_superseded", keep_superseded, parse_duration),
        }
        if fields["budget"] is None and not problems:
            problems.append("budget is None, but must be a time; 0 to never wait")
        if fields["keep_superseded"] is None and not problems:
            problems.append("keep_superseded is None, but must be a time; 0 to drop them at once")
        if problems:
            raise InvalidInput("a flush policy cannot be made: " + "; ".join(problems), problems=problems)
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def is_due(self, inlined: Inlined, now: datetime, times: int = 1) -> bool:
        """Tell whether a threshold is reached, or `times` the threshold of rows or bytes."""
        deletes = inlined.ended_rows + inlined.file_deletes
        age = now - inlined.oldest if inlined.oldest is not None else None
        return (
            (self.rows is not None and inlined.rows >= self.rows * times)
            or (self.bytes is not None and inlined.rows > 0 and inlined.size_bytes >= self.bytes * times)
            or (times == 1 and self.deletes is not None and deletes >= self.deletes)
            or (times == 1 and self.age is not None and age is not None and age >= self.age)
        )


def parse_count(value: object) -> int:
    """Return a number of at least one; raise ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("a number of at least 1, or None")
    return value


def _parsed(problems: list[str], name: str, value: object, parse: Callable[[object], object]) -> object:
    try:
        return None if value is None else parse(value)
    except ValueError as error:
        problems.append(f"{name} is {value!r}, but must be {error}")
        return None
