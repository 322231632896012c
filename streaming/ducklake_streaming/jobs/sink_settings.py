"""What a job file says of a pipeline's sink: the arguments of `DuckLakeSink`, derived from them. Runs on the driver."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BeforeValidator
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import expr

from ducklake_core.settings import checked, derived, setting, text
from ducklake_sinks import FlushPolicy
from ducklake_sinks.options import SinkOptions
from ducklake_streaming.jobs.keys import Keys
from ducklake_streaming.jobs.sql_texts import OptionalExpression
from ducklake_streaming.jobs.values import parse_texts

# What other parts of the file say.
FROM_ELSEWHERE = {
    "catalog": "url of [catalog]",
    "data_path": "data_path of [catalog]",
    "override_data_path": "override_data_path of [catalog]",
    "storage": "storage of [catalog]",
    "metadata_schema": "metadata_schema of [catalog]",
    "catalog_timeout": "timeout of [catalog]",
    "stream": "stream of the pipeline",
}


def _flush(value: object) -> object:
    """TOML has no null: `false` stands for never, of the policy and of each threshold."""
    if value is False:
        return None
    if not isinstance(value, Mapping):
        raise ValueError('thresholds such as { rows = 100_000, bytes = "64MB", age = "5m" }, or false for never')  # noqa: TRY004 # what pydantic collects
    return {name: None if one is False else one for name, one in value.items()}


def _keys_by_topic(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        raise ValueError("a table of lists of columns by their topics")  # noqa: TRY004 # what pydantic collects
    return {text(topic): parse_texts(keys) for topic, keys in value.items()}


KeysByTopic: TypeAlias = Annotated[
    Mapping[str, tuple[str, ...]],
    *checked(
        _keys_by_topic, {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}
    ),
]

if TYPE_CHECKING:
    _SinkArguments = Keys
else:
    _SinkArguments = derived("_SinkArguments", SinkOptions, base=Keys, leave_out=FROM_ELSEWHERE)


@dataclass(frozen=True, slots=True)
class RouteExpression:
    """A route as SQL: `concat('main.', topic)`. Spark parses it when the first batch comes."""

    sql: str

    def __call__(self, frame: DataFrame) -> Column:
        del frame  # its columns are found by name
        return expr(self.sql)


class SinkSettings(_SinkArguments):
    """`[pipeline.NAME.sink]`: every argument of `DuckLakeSink` that other parts of the file do not say."""

    route: OptionalExpression = setting(
        "instead of `table`: a SQL expression of the rows' columns that names the table of each, such as "
        "`concat('main.', topic)`",
        default=None,
    )

    keys_by_topic: KeysByTopic = setting(
        "with `route` and events of Debezium: the keys of a topic's table, where they are not those of `keys`",
        default={},
    )

    flush: Annotated[FlushPolicy | None, BeforeValidator(_flush)] = setting(
        'when inlined rows become Parquet, such as `{ rows = 100_000, bytes = "64MB", age = "5m" }`; `false`: never, '
        "also of a single threshold",
        default=FlushPolicy(),
        shown="[its own](write-a-stream.md#options)",
    )

    if TYPE_CHECKING:  # the derived ones that others ask for by name
        table: str | None
        mode: str
        stored_as_scd_type: int
        keys: tuple[str, ...]
        except_columns: tuple[str, ...]
        on_bad_row: str
        dead_letter_table: str | None

    def arguments(self) -> dict[str, Any]:  # Any: each argument is of its own type
        """Return what the file says, as arguments of `DuckLakeSink`."""
        names = self.model_fields_set - {"keys_by_topic"}
        given = {name: getattr(self, name) for name in type(self).model_fields if name in names}
        return given | ({} if self.route is None else {"route": RouteExpression(self.route)})

    def keys_of(self, topic: str) -> tuple[str, ...]:
        """Return the keys of a topic's table."""
        return self.keys_by_topic.get(topic, self.keys)

    @classmethod
    def unknown(cls, name: str) -> str:
        if name in FROM_ELSEWHERE:
            return f"there is no key '{name}' here: use {FROM_ELSEWHERE[name]}"
        return super().unknown(name)

    @classmethod
    def omissions(cls, right: Mapping[str, Any], given: Collection[str]) -> Iterator[str]:  # Any: see arguments
        del right
        if not {"table", "route"} & set(given):
            yield "table is missing: name where rows go, or give a route"

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: see arguments
        return SinkOptions.contradictions(right)
