"""Makes a table ready for a batch within its transaction: creates it, or changes it as far as it may be changed.

Runs on the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ducklake_core import Lake, Transaction
from ducklake_core.errors import InvalidInput, SchemaMismatch, UnsupportedType
from ducklake_core.model import Column
from ducklake_core.plan.conform import conform
from ducklake_core.plan.evolution import AddColumn, plan_evolution
from ducklake_core.spec.names import fold, split_table_name
from ducklake_core.spec.types import arrow_schema, build_columns
from ducklake_sinks.dead_letters import DEAD_LETTER_SCHEMA, OPTIONAL_FIELDS, fitting_letters
from ducklake_sinks.frame_schema import FrameSchema
from ducklake_sinks.memory import DefinitionMemory, TableMemory
from ducklake_sinks.options import SinkOptions
from ducklake_sinks.routes import route_key
from ducklake_sinks.table_gone import table_gone_error


@dataclass(frozen=True, slots=True)
class TableSetup:
    """Prepares the tables of one batch, and knows which of them it has created in the lake's transaction."""

    lake: Lake
    options: SinkOptions
    definitions: DefinitionMemory
    tables: TableMemory
    created: set[str] = field(default_factory=set)

    def prepare(self, core: Transaction, name: str, schema: FrameSchema | None, *, with_records: bool = False) -> None:
        """Create or change a table as its rows need it; what was found fit before is not looked at again.

        `schema` None: the table for dead letters, `with_records`: of records. Raises CommitConflict when a table of
        this sink is gone: a new one under its name would hide that the rows so far are gone.
        """
        key = route_key(name)
        table_id = self.tables.ids.get(key)
        found = core.table_version(name) if core.has_table(name) else None
        if table_id is not None and (found is None or found.table_id != table_id):
            raise table_gone_error(self.lake, name, table_id)
        lacks_columns = with_records and found is not None and bool(_lacking(found.columns))
        if found is not None and not lacks_columns and self.definitions.is_prepared(key, found.columns, schema):
            return
        if schema is None:
            is_new = _prepare_dead_letters(core, name, with_records=with_records)
        else:
            is_new = _prepare(core, name, schema, self.options)
        if is_new:
            self.created.add(name)
        table = core.table_version(name)
        self.definitions.note_prepared(key, table.columns, schema)
        if table.table_id >= 0:
            self.tables.ids[key] = table.table_id


def _prepare(tx: Transaction, name: str, frame: FrameSchema, options: SinkOptions) -> bool:
    """Make `name` hold data of a schema; refuse by column and type. Tell whether it was created."""
    schema = frame.types
    is_new = not tx.has_table(name)
    if is_new:
        _create_schema(tx, name)
        tx.create_table(name, schema, partition_by=options.partition_by, sorted_by=options.sorted_by)
    elif options.merge_schema:
        tx.merge_schema(name, schema)
    else:
        _refuse_new_columns(tx, name, schema)
    _refuse_voids(tx, name, frame.voids)
    columns = tx.table_version(name).columns
    # With no rows every column's kind is compared, and none of its values.
    empty = arrow_schema(build_columns(schema)).empty_table()
    conform(empty, columns, name, fill_missing=options.merge_schema or bool(frame.voids))
    return is_new


def _prepare_dead_letters(tx: Transaction, name: str, *, with_records: bool) -> bool:
    """Create the table for rows that cannot be stored, or see that it is one. Tell whether it was created.

    One of before gets the columns of records when the first is to be kept.
    """
    if not tx.has_table(name):
        _create_schema(tx, name)
        tx.create_table(name, DEAD_LETTER_SCHEMA)
        return True
    for column, type_ in _lacking(tx.table_version(name).columns) if with_records else ():
        tx.add_column(name, column, type_)
    columns = tx.table_version(name).columns
    try:
        conform(fitting_letters(DEAD_LETTER_SCHEMA.empty_table(), columns), columns, name, fill_missing=True)
    except SchemaMismatch as error:
        raise InvalidInput(
            f"table '{name}' cannot keep rows that are quarantined: {error}; name another with dead_letter_table"
        ) from error
    return False


def _lacking(columns: Sequence[Column]) -> list[tuple[str, pa.DataType]]:
    """Return the columns for records that a table of dead letters does not have yet."""
    known = {fold(column.name) for column in columns}
    return [(name, type_) for name, type_ in OPTIONAL_FIELDS if fold(name) not in known]


def _create_schema(tx: Transaction, name: str) -> None:
    schema, _ = split_table_name(name)
    if not tx.has_schema(schema):
        tx.create_schema(schema)


def _refuse_new_columns(tx: Transaction, name: str, schema: Mapping[str, str]) -> None:
    table = tx.table_version(name)
    steps = plan_evolution(table.columns, build_columns(schema))
    new = [f"{step.path} {step.type}" for step in steps if isinstance(step, AddColumn)]
    if new:
        raise SchemaMismatch(
            f"table '{name}' has no columns {', '.join(new)}: merge_schema=True adds them", columns=new
        )


def _refuse_voids(tx: Transaction, name: str, voids: Sequence[str]) -> None:
    known = {fold(column.name) for column in tx.table_version(name).columns}
    unsupported = [column for column in voids if fold(column) not in known]
    if unsupported:
        raise UnsupportedType(
            f"columns {', '.join(unsupported)} have Spark type 'void', and table '{name}' lacks them: cast them to the "
            "type they should have",
            columns=unsupported,
        )
