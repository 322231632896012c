"""Makes a table ready for a batch within its transaction: creates it, or changes it as far as it may be changed.

Runs on the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ducklake_core import Transaction
from ducklake_core.errors import InvalidInput, SchemaMismatch, UnsupportedType
from ducklake_core.plan.conform import conform
from ducklake_core.plan.evolution import AddColumn, plan_evolution
from ducklake_core.spec.names import fold, split_table_name
from ducklake_core.spec.types import arrow_schema, build_columns
from ducklake_sinks.bad_rows import DEAD_LETTER_SCHEMA
from ducklake_sinks.frame_schema import FrameSchema
from ducklake_sinks.options import SinkOptions


def prepare_table(tx: Transaction, name: str, frame: FrameSchema, options: SinkOptions) -> bool:
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


def prepare_dead_letters(tx: Transaction, name: str) -> bool:
    """Create the table for rows that cannot be stored, or see that it is one. Tell whether it was created."""
    if not tx.has_table(name):
        _create_schema(tx, name)
        tx.create_table(name, DEAD_LETTER_SCHEMA)
        return True
    try:
        conform(DEAD_LETTER_SCHEMA.empty_table(), tx.table_version(name).columns, name, fill_missing=True)
    except SchemaMismatch as error:
        raise InvalidInput(
            f"table '{name}' cannot keep rows that are quarantined: {error}; name another with dead_letter_table"
        ) from error
    return False


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
