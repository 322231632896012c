"""What a sink is told: parsed and checked once, every mistake at once. Opens nothing; pickles with the sink."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame

from ducklake_core.catalog.urls import CatalogUrl
from ducklake_core.errors import DuckLakeError, InvalidInput
from ducklake_core.model import SortKey
from ducklake_core.row_writes import INLINE_BYTES
from ducklake_core.spec.names import join_table_name, nearest_name, split_table_name
from ducklake_core.spec.options import normalize_option
from ducklake_core.spec.partition import parse_partition_expressions
from ducklake_core.spec.paths import hide_password
from ducklake_core.spec.quantities import parse_duration, parse_size
from ducklake_sinks.flush_policy import FlushPolicy
from ducklake_sinks.routes import route_key

Route: TypeAlias = str | Callable[[DataFrame], Column]
BAD_ROW_CHOICES = ("fail", "quarantine")
_SORT_KEY = re.compile(r"""("[^"]+"|[^\s"]+)(\s+(ASC|DESC))?(\s+NULLS\s+(FIRST|LAST))?""", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The arguments of `DuckLakeSink`, which explains them."""

    catalog: str
    table: str | None = None
    route: Route | None = None
    stream: str | None = None
    data_path: str | None = None
    metadata_schema: str | None = None
    partition_by: tuple[str, ...] = ()
    sorted_by: tuple[str | SortKey, ...] = ()
    table_options: Mapping[str, object] | None = None
    merge_schema: bool = False
    inline_rows: int = 10_000
    inline_bytes: int = INLINE_BYTES
    flush: FlushPolicy | None = FlushPolicy()  # noqa: RUF009 # frozen
    on_bad_row: str = "fail"
    dead_letter_table: str | None = None
    job: str | None = None
    catalog_timeout: str | float | timedelta = "2m"

    @property
    def quarantines(self) -> bool:
        return self.on_bad_row == "quarantine"

    @property
    def dead_letters(self) -> str:
        """The table for rows that cannot be stored."""
        if self.dead_letter_table is not None:
            return self.dead_letter_table
        if self.table is None:
            return "main.dead_letters"
        schema, name = split_table_name(self.table)
        return join_table_name(schema, f"{name}_dead_letters")

    def __repr__(self) -> str:
        shown = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        shown["catalog"] = CatalogUrl.parse(self.catalog).shown  # without its password
        if self.data_path is not None:
            shown["data_path"] = hide_password(self.data_path)
        return f"SinkOptions({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def parse_options(arguments: Mapping[str, Any]) -> SinkOptions:  # Any: whatever a caller may get wrong
    """Return the options; raise InvalidInput that lists every bad argument."""
    known = {f.name for f in fields(SinkOptions)}
    problems = [_unknown(name, known) for name in arguments if name not in known]
    given = {name: value for name, value in arguments.items() if name in known}
    for name in ("partition_by", "sorted_by"):
        if name in given:
            given[name] = _listed(given[name])
    if _size(given.get("inline_bytes")) is None:
        given["inline_bytes"] = parse_size(given["inline_bytes"])
    for name, check in _CHECKS.items():
        problem = check(given[name]) if name in given else None
        if problem is not None:
            problems.append(f"{name} {problem}")
    if not problems:
        problems += _contradictions(SinkOptions(**given))
    if problems:
        raise InvalidInput("a sink cannot be made: " + "; ".join(problems), problems=problems)
    return SinkOptions(**given)


def _contradictions(options: SinkOptions) -> Iterator[str]:
    """Yield what is wrong only together."""
    if options.route is not None and options.table is not None:
        yield "table and route exclude each other: a route names the table of each row"
    if options.table is not None and route_key(options.table) == route_key(options.dead_letters):
        yield "dead_letter_table is the table itself: name another"
    problem = _refusal(lambda _: CatalogUrl.parse(options.catalog, options.metadata_schema))(None)
    if problem is not None:
        yield f"metadata_schema {problem}".replace("is wrong: metadata_schema ", "")


def _unknown(name: str, known: set[str]) -> str:
    near = nearest_name(name, known)
    hint = f"did you mean '{near}'?" if near else f"known are {', '.join(sorted(known))}"
    return f"there is no argument '{name}': {hint}"


def _listed(value: Any) -> Any:  # Any: checked next
    return (value,) if isinstance(value, (str, SortKey)) else tuple(value) if isinstance(value, Sequence) else value


def _refusal(parse: Callable[[Any], object]) -> Callable[[Any], str | None]:  # Any: see parse_options
    """Make a check of what raises."""

    def check(value: Any) -> str | None:  # Any: see parse_options
        try:
            parse(value)
        except (DuckLakeError, TypeError, AttributeError, ValueError) as error:
            return f"is wrong: {error}"
        return None

    return check


def _optional(check: Callable[[Any], str | None]) -> Callable[[Any], str | None]:  # Any: see parse_options
    return lambda value: None if value is None else check(value)


def _text(value: object) -> str | None:
    return None if isinstance(value, str) and value else f"is {value!r}, but must be a text that is not empty"


def _flag(value: object) -> str | None:
    return None if isinstance(value, bool) else f"is {value!r}, but must be True or False"


def _row_count(value: object) -> str | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return None if is_count else f"is {value!r}, but must be a number of rows, 0 or more"


def _size(value: object) -> str | None:
    try:
        parse_size(value)
    except ValueError as error:
        return f"is {value!r}, but must be {error}"
    return None


def _duration(value: object) -> str | None:
    try:
        parse_duration(value)
    except ValueError as error:
        return f"is {value!r}, but must be {error}"
    return None


def _route(value: object) -> str | None:
    is_route = (isinstance(value, str) and bool(value)) or callable(value)
    return None if is_route else f"is {value!r}, but must be a column's name or a function from a DataFrame to a Column"


def _flush(value: object) -> str | None:
    return (
        None if isinstance(value, FlushPolicy) else f"is {value!r}, but must be a FlushPolicy, or None to never flush"
    )


def _choice(value: object) -> str | None:
    return None if value in BAD_ROW_CHOICES else f"is {value!r}, but must be 'fail' or 'quarantine'"


def _table_options(value: Any) -> str | None:  # Any: see parse_options
    if not isinstance(value, Mapping):
        return f"is {value!r}, but must be a mapping of DuckLake's options of a table"
    problems = [problem for k, v in value.items() if (problem := _refusal(lambda _: normalize_option(k, v))(None))]  # noqa: B023 # called at once
    return "; ".join(problems) or None


def _partitioning(value: Any) -> str | None:  # Any: see parse_options
    if not isinstance(value, tuple):
        return f"is {value!r}, but must be a list of expressions such as 'date(ts)'"
    return next(filter(None, (_refusal(parse_partition_expressions)((expression,)) for expression in value)), None)


def _sorting(value: Any) -> str | None:  # Any: see parse_options
    keys = value if isinstance(value, tuple) else (value,)
    wrong = [
        key for key in keys if not (isinstance(key, SortKey) or (isinstance(key, str) and _SORT_KEY.fullmatch(key)))
    ]
    return f"has {wrong[0]!r}, but takes expressions such as 'ts' or 'ts DESC NULLS FIRST'" if wrong else None


_CHECKS: Mapping[str, Callable[[Any], str | None]] = {  # Any: see parse_options
    "catalog": _refusal(CatalogUrl.parse),
    "table": _optional(_refusal(split_table_name)),
    "route": _optional(_route),
    "stream": _optional(_text),
    "data_path": _optional(_text),
    "metadata_schema": _optional(_text),
    "partition_by": _partitioning,
    "sorted_by": _sorting,
    "table_options": _optional(_table_options),
    "merge_schema": _flag,
    "inline_rows": _row_count,
    "inline_bytes": _size,
    "flush": _optional(_flush),
    "on_bad_row": _choice,
    "dead_letter_table": _optional(_refusal(split_table_name)),
    "job": _optional(_text),
    "catalog_timeout": _duration,
}
