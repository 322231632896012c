"""When inlined rows are flushed to Parquet: a policy of thresholds, and the decision by them. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Protocol

from ducklake_core.settings import Duration, OptionalCount, OptionalDuration, OptionalSize, Settings, setting


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


class FlushPolicy(Settings):
    """Flush a table's inlined rows as soon as one threshold is reached; None: never for that reason."""

    purpose: ClassVar[str] = "a flush policy cannot be made"
    noun: ClassVar[str] = "threshold"

    rows: OptionalCount = setting("number of inlined rows", default=100_000)
    bytes: OptionalSize = setting(
        "their size: a number, or a text such as `64MB`, `64 megabytes` or `64MiB`",
        default=64_000_000,
        shown="`'64MB'`",
    )
    age: OptionalDuration = setting(
        "age of the oldest inlined row: seconds, or a text such as `30s`, `5m`, `5 minutes`, `1h` or `2d`",
        default=timedelta(minutes=5),
        shown="`'5m'`",
    )
    deletes: OptionalCount = setting(
        "number of deleted rows in the catalog: inlined rows that were deleted, and deletes from files", default=10_000
    )
    budget: Duration = setting(
        "not a threshold: how long a batch may wait for a flush that has fallen behind",
        default=timedelta(seconds=2),
        shown="`'2s'`",
    )
    keep_superseded: Duration = setting(
        "not a threshold: how long empty tables of inlined rows are kept "
        "[for open DuckDB sessions](work-with-duckdb.md#sessions-that-stay-open)",
        default=timedelta(hours=1),
        shown="`'1h'`",
    )

    if TYPE_CHECKING:  # what may be given, where that is more than what is kept

        def __init__(
            self,
            *,
            rows: int | None = ...,
            bytes: int | str | None = ...,  # noqa: A002 # the word users know
            age: float | str | timedelta | None = ...,
            deletes: int | None = ...,
            budget: float | str | timedelta = ...,
            keep_superseded: float | str | timedelta = ...,
        ) -> None: ...

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
