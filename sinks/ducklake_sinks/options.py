"""What a sink is told: each option once, with its default and what it means. Opens nothing; pickles with the sink."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BeforeValidator
from pyspark.sql import Column, DataFrame

from ducklake_core.errors import InvalidInput
from ducklake_core.model import SortKey
from ducklake_core.row_writes import INLINE_BYTES
from ducklake_core.settings import (
    Catalog,
    Duration,
    Flag,
    OptionalTableName,
    OptionalText,
    Problem,
    RowCount,
    Settings,
    Size,
    check_catalog,
    checked,
    optional,
    setting,
)
from ducklake_core.spec.names import join_table_name, split_table_name
from ducklake_core.spec.options import normalize_option
from ducklake_core.spec.partition import parse_partition_expressions
from ducklake_core.storage_settings import OptionalStorage
from ducklake_core.upsert.rules import DEFAULT_KEEP_DELETED, SCD_TYPES, history_problems
from ducklake_sinks.change_rules import ChangeRules
from ducklake_sinks.flush_policy import FlushPolicy
from ducklake_sinks.routes import route_key

Route: TypeAlias = str | Callable[[DataFrame], Column]
BAD_ROW_CHOICES = ("fail", "quarantine")
MODES = ("append", "upsert")
DUPLICATE_CHOICES = ("error", "keep_first")
# What only an upsert can be told.
CHANGE_OPTIONS = (
    *("keys", "sequence_by", "apply_as_deletes", "apply_as_truncates"),
    *("except_columns", "ignore_null_updates", "kept_columns", "old_keys"),
    *("on_duplicate_keys", "keep_deleted_keys", "stored_as_scd_type", "track_history_columns"),
)
_SORT_KEY = re.compile(r"""("[^"]+"|[^\s"]+)(\s+(ASC|DESC))?(\s+NULLS\s+(FIRST|LAST))?""", re.IGNORECASE)
_TEXTS = {"type": ["string", "array"], "items": {"type": "string"}}


def _route(value: object) -> object:
    if not (isinstance(value, str) and value) and not callable(value):
        raise ValueError("a column's name or a function from a DataFrame to a Column")
    return value


def _listed(value: Any) -> Any:  # Any: whatever a user may get wrong
    return (value,) if isinstance(value, (str, SortKey)) else tuple(value) if isinstance(value, Sequence) else value


def partitioning(value: object) -> object:
    expressions = _listed(value)
    if not isinstance(expressions, tuple) or not all(isinstance(one, str) for one in expressions):
        raise ValueError("a list of expressions such as 'date(ts)'")
    for expression in expressions:
        parse_partition_expressions((expression,))
    return expressions


def sorting(value: object) -> object:
    keys = _listed(value)
    for key in keys if isinstance(keys, tuple) else (keys,):
        if not isinstance(key, SortKey) and not (isinstance(key, str) and _SORT_KEY.fullmatch(key)):
            raise Problem(f"has {key!r}, but takes expressions such as 'ts' or 'ts DESC NULLS FIRST'")
    return keys


def _table_options(value: Any) -> object:  # Any: see _listed
    if not isinstance(value, Mapping):
        raise ValueError("a mapping of DuckLake's options of a table")  # noqa: TRY004 # what pydantic collects
    problems = [problem for name, one in value.items() if (problem := _problem_of_option(name, one))]
    if problems:
        raise InvalidInput("; ".join(problems))
    return value


def _problem_of_option(name: object, value: Any) -> str | None:  # Any: see _listed
    if not isinstance(name, str):
        return f"{name!r} is no name of an option"
    try:
        normalize_option(name, value)
    except InvalidInput as error:
        return str(error)
    return None


def one_of(*choices: str | int) -> Callable[[object], object]:
    def check(value: object) -> object:
        if value not in choices:
            raise ValueError(" or ".join(map(repr, choices)))
        return value

    return check


def _names(value: object) -> object:
    names = _listed(value)
    if not isinstance(names, tuple) or not all(isinstance(name, str) and name for name in names):
        raise ValueError("a column's name, or a list of them")
    return names


def _policy(value: object) -> object:
    if value is not None and not isinstance(value, (FlushPolicy, Mapping)):
        raise ValueError("a FlushPolicy, or None to never flush")
    return value


class SinkOptions(Settings):
    """The arguments of `DuckLakeSink`."""

    purpose: ClassVar[str] = "a sink cannot be made"
    noun: ClassVar[str] = "argument"

    catalog: Catalog = setting(
        "a URL such as `postgresql://lake@db/lake` or `sqlite:///lake.sqlite`, or the string of DuckDB's ATTACH"
    )
    table: OptionalTableName = setting("where rows go; created from the first batch that has rows", default=None)
    route: Annotated[Route | None, *checked(optional(_route), {"type": "string"})] = setting(
        "instead of `table`: a column, or a function from the DataFrame to a Column, that names the table of each row",
        default=None,
    )
    stream: OptionalText = setting(
        "the stream's name in the ledger; default: Spark's query id. Required over Spark Connect", default=None
    )
    data_path: OptionalText = setting(
        "where files go if the sink has to create the lake; without it, the lake must exist", default=None
    )
    override_data_path: Flag = setting(
        "take `data_path` though the catalog has another one: its files were moved", default=False
    )
    storage: OptionalStorage = setting(
        'how an S3 store is reached, such as `{"endpoint": "https://s3.example.com"}`: see '
        "[keep data on S3](object-storage.md)",
        default=None,
    )
    metadata_schema: OptionalText = setting("the PostgreSQL schema of the catalog's tables", default=None)
    partition_by: Annotated[tuple[str, ...], *checked(partitioning, _TEXTS)] = setting(
        'for tables that the sink creates, such as `["year(ts)", "month(ts)", "day(ts)"]` (or `date(ts)`, the same) or '
        "`bucket(8, id)`",
        default=(),
    )
    sorted_by: Annotated[tuple[str | SortKey, ...], *checked(sorting, _TEXTS)] = setting(
        "for tables that the sink creates, such as `ts` or `ts DESC`", default=()
    )
    table_options: Annotated[Mapping[str, object] | None, *checked(optional(_table_options), {"type": "object"})] = (
        setting(
            'DuckLake options for tables that the sink creates, such as `{"target_file_size": "64MB"}`', default=None
        )
    )
    merge_schema: Flag = setting(
        "follow the schema of the data: see [schema changes](schema-changes.md)", default=False
    )
    inline_rows: RowCount = setting(
        "the largest number of rows in a batch that is inlined; 0: inline nothing", default=10_000
    )
    inline_bytes: Size = setting(
        "the largest size of a batch that is inlined, for each table, as Arrow holds it; a larger one goes to Parquet, "
        "however few rows it has",
        default=INLINE_BYTES,
        shown="`'8MB'`",
    )
    flush: Annotated[FlushPolicy | None, BeforeValidator(_policy)] = setting(
        "when inlined rows become Parquet; `None`: never", default=FlushPolicy()
    )
    on_bad_row: Annotated[str, *checked(one_of(*BAD_ROW_CHOICES), {"enum": [*BAD_ROW_CHOICES]})] = setting(
        "or `'quarantine'`: see [bad records](bad-records.md)", default="fail"
    )
    dead_letter_table: OptionalTableName = setting(
        "where quarantined rows go; default: the table's name with `_dead_letters`, and `main.dead_letters` with a "
        "route",
        default=None,
    )
    mode: Annotated[str, *checked(one_of(*MODES), {"enum": [*MODES]})] = setting(
        "or `'upsert'`: rows are changes, applied by key; see [upserts](upserts.md)", default="append"
    )
    keys: Annotated[tuple[str, ...], *checked(_names, _TEXTS)] = setting(
        "with `mode='upsert'`: the columns that tell the table's rows apart", default=()
    )
    sequence_by: Annotated[tuple[str, ...], *checked(_names, _TEXTS)] = setting(
        "the columns that say which of two changes of a key is newer; default: the one that comes later", default=()
    )
    apply_as_deletes: OptionalText = setting(
        "Spark SQL that is true for changes that delete their key, such as `op = 'd'`", default=None
    )
    apply_as_truncates: OptionalText = setting(
        "Spark SQL that is true for changes that delete all rows, such as `op = 't'`", default=None
    )
    except_columns: Annotated[tuple[str, ...], *checked(_names, _TEXTS)] = setting(
        "columns of the changes that the table does not get", default=()
    )
    ignore_null_updates: Flag = setting("a null in a change leaves the value that the row has", default=False)
    kept_columns: OptionalText = setting(
        "a column of the changes with lists of columns: the row keeps what it has in these", default=None
    )
    old_keys: OptionalText = setting(
        "a column of the changes with structs of the key that a row had before: it is deleted", default=None
    )
    on_duplicate_keys: Annotated[str, *checked(one_of(*DUPLICATE_CHOICES), {"enum": [*DUPLICATE_CHOICES]})] = setting(
        "or `'keep_first'`: what to do about a key that the table has more than once", default="error"
    )
    keep_deleted_keys: Duration = setting(
        "how long deleted keys are remembered, for changes that come late",
        default=timedelta(days=7),
        shown=f"`'{DEFAULT_KEEP_DELETED}'`",
    )
    stored_as_scd_type: Annotated[int, *checked(one_of(*SCD_TYPES), {"enum": [*SCD_TYPES]})] = setting(
        "or `2`: the table keeps all versions of a row, with `__START_AT` and `__END_AT`", default=1
    )
    track_history_columns: Annotated[tuple[str, ...], *checked(_names, _TEXTS)] = setting(
        "with `stored_as_scd_type=2`: columns of which another value makes a new version; default: all but the keys",
        default=(),
    )
    job: OptionalText = setting(
        "a name for people, stored in each snapshot with the stream, the batch and the source offsets", default=None
    )
    catalog_timeout: Duration = setting(
        "how long a batch waits for a catalog that cannot be reached; then the query fails",
        default=timedelta(minutes=2),
        shown="`'2m'`",
    )

    @property
    def quarantines(self) -> bool:
        return self.on_bad_row == "quarantine"

    @property
    def changes(self) -> ChangeRules | None:
        """How rows are applied by key; None: they are appended."""
        if self.mode == "append":
            return None
        return ChangeRules(**{name: getattr(self, name) for name in CHANGE_OPTIONS})

    @property
    def dead_letters(self) -> str:
        """The table for rows that cannot be stored."""
        return _dead_letters(self.table, self.dead_letter_table)

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: each is of its own type
        table, named = right.get("table"), right.get("dead_letter_table")
        if right.get("route") is not None and table is not None:
            yield "table and route exclude each other: a route names the table of each row"
        if table is not None and route_key(table) == route_key(_dead_letters(table, named)):
            yield "dead_letter_table is the table itself: name another"
        yield from _contradictions_of_mode(right)
        if "catalog" in right:
            try:
                check_catalog(right["catalog"], right.get("metadata_schema"))
            except InvalidInput as error:
                yield str(error)


def _contradictions_of_mode(right: Mapping[str, Any]) -> Iterator[str]:  # Any: each is of its own type
    if right.get("mode") == "upsert":
        if not right.get("keys"):
            yield "mode 'upsert' needs keys: name the columns that tell the table's rows apart, such as keys=['id']"
        yield from history_problems(right)
    elif "mode" in right:
        for name in CHANGE_OPTIONS:
            if right.get(name, SinkOptions.model_fields[name].default) != SinkOptions.model_fields[name].default:
                yield f"{name} says how changes are applied: it needs mode='upsert'"


def _dead_letters(table: str | None, named: str | None) -> str:
    if named is not None:
        return named
    if table is None:
        return "main.dead_letters"
    schema, name = split_table_name(table)
    return join_table_name(schema, f"{name}_dead_letters")


def parse_options(arguments: Mapping[str, Any]) -> SinkOptions:  # Any: whatever a caller may get wrong
    """Return the options; raise InvalidInput that lists every bad argument."""
    return SinkOptions.parse(arguments)
