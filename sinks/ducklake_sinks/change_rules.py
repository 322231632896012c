"""How rows that are changes are applied to a table by key. Made and used on the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

import pyarrow as pa
from pyspark.sql import DataFrame

from ducklake_core import Transaction
from ducklake_core.errors import InvalidInput, SchemaMismatch
from ducklake_core.spec.names import fold
from ducklake_core.upsert.history_columns import END_AT, START_AT
from ducklake_core.upsert.memory import UpsertMemory
from ducklake_core.upsert.report import UpsertReport
from ducklake_core.upsert.rules import DEFAULT_KEEP_DELETED, OnDuplicateKeys, history_problems
from ducklake_sinks.frame_schema import FrameSchema

if TYPE_CHECKING:
    from ducklake_sinks.options import SinkOptions

IS_DELETE = "__ducklake_is_delete"
IS_TRUNCATE = "__ducklake_is_truncate"


class ChangeArguments(TypedDict, total=False):
    """What `tx.upsert` takes; see `SinkOptions`."""

    keys: str | Sequence[str]
    sequence_by: str | Sequence[str]
    apply_as_deletes: str | None
    apply_as_truncates: str | None
    except_columns: str | Sequence[str]
    ignore_null_updates: bool
    kept_columns: str | None
    old_keys: str | None
    on_duplicate_keys: OnDuplicateKeys
    keep_deleted_keys: str | float | timedelta
    stored_as_scd_type: int
    track_history_columns: str | Sequence[str]


@dataclass(frozen=True, slots=True)
class ChangeRules:
    """The keys of a table, and what the columns of its changes mean; conditions are Spark's SQL over these columns."""

    keys: tuple[str, ...]
    sequence_by: tuple[str, ...] = ()
    apply_as_deletes: str | None = None
    apply_as_truncates: str | None = None
    except_columns: tuple[str, ...] = ()
    ignore_null_updates: bool = False
    kept_columns: str | None = None
    old_keys: str | None = None
    on_duplicate_keys: OnDuplicateKeys = "error"
    keep_deleted_keys: str | float | timedelta = DEFAULT_KEEP_DELETED
    stored_as_scd_type: int = 1
    track_history_columns: tuple[str, ...] = ()
    deletes_all: bool = False  # each row names a key to delete

    @classmethod
    def of(cls, given: ChangeArguments, default: ChangeRules | None) -> ChangeRules:
        """Return what a call says, and for the rest what the sink's options do; raise InvalidInput without keys."""
        said: dict[str, Any] = {}  # Any: each is of its own type
        for name, value in given.items():
            is_list = name in ("keys", "sequence_by", "except_columns", "track_history_columns")
            said[name] = (value,) if is_list and isinstance(value, str) else tuple(value) if is_list else value  # type: ignore[arg-type] # a list
        if default is not None:
            return replace(default, **said)
        if not said.get("keys"):
            raise InvalidInput("changes are applied by key: name the columns that tell rows apart, as in keys=['id']")
        return cls(**said)

    def marked(self, frame: DataFrame) -> DataFrame:
        """Return the changes with what the conditions say of each."""
        marks = [f"coalesce({condition}, false) AS {name}" for name, condition in self._conditions().items()]
        return frame.selectExpr("*", *marks) if marks else frame

    def stored(self, schema: FrameSchema) -> FrameSchema:
        """Return the columns that the table has."""
        said = (name for name in (self.kept_columns, self.old_keys) if name is not None)
        left_out = {fold(name) for name in (*self.except_columns, *said, *self._conditions())}
        left = schema.without(*(name for name in schema.types if fold(name) in left_out))
        return left.with_columns(self._of_versions(schema)) if self.keeps_history else left

    @property
    def keeps_history(self) -> bool:
        return self.stored_as_scd_type == 2

    def _of_versions(self, schema: FrameSchema) -> Mapping[str, str]:
        """Return the columns that say when a version holds, in the type of the sequence; raise InvalidInput."""
        for problem in history_problems(asdict(self)):
            raise InvalidInput(problem)
        types = {fold(name): text for name, text in schema.types.items()}
        sequence = types.get(fold(self.sequence_by[0]))
        if sequence is None:
            raise SchemaMismatch(
                f"the changes lack the sequence column '{self.sequence_by[0]}'", columns=[*self.sequence_by]
            )
        return {START_AT: sequence, END_AT: sequence}

    def apply(
        self, core: Transaction, table: str, rows: pa.Table, options: SinkOptions, memory: UpsertMemory
    ) -> UpsertReport:
        """Stage changes of one table. `memory`: what earlier attempts with the same rows have read."""
        if self.deletes_all:
            return core.delete_keys(table, rows, keys=self.keys, memory=memory)
        marks = self._conditions()
        return core.upsert(
            table,
            rows,
            keys=self.keys,
            memory=memory,
            sequence_by=self.sequence_by,
            apply_as_deletes=IS_DELETE if IS_DELETE in marks else None,
            apply_as_truncates=IS_TRUNCATE if IS_TRUNCATE in marks else None,
            except_columns=(*self.except_columns, *marks),
            ignore_null_updates=self.ignore_null_updates,
            kept_columns=self.kept_columns,
            old_keys=self.old_keys,
            on_duplicate_keys=self.on_duplicate_keys,
            keep_deleted_keys=self.keep_deleted_keys,
            stored_as_scd_type=self.stored_as_scd_type,
            track_history_columns=self.track_history_columns,
            fill_missing=options.merge_schema,
            inline_rows=options.inline_rows,
            inline_bytes=options.inline_bytes,
        )

    def _conditions(self) -> Mapping[str, str]:
        both = {IS_DELETE: self.apply_as_deletes, IS_TRUNCATE: self.apply_as_truncates}
        return {name: condition for name, condition in both.items() if condition is not None}
