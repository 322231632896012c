"""How a table's columns are declared in its table of inlined rows, and which columns cannot be there. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from ducklake_core.errors import UnsupportedType
from ducklake_core.model import Column
from ducklake_core.spec.arrays import has_text, leaves, plain, single
from ducklake_core.spec.kinds import Kind, decimal_parameters
from ducklake_core.spec.memo import per_object
from ducklake_core.spec.types import INTERNAL_NAMES

# Names the table of inlined rows has itself, or the extension refuses there (compared regardless of case).
RESERVED_NAMES = frozenset(("row_id", "begin_snapshot", "end_snapshot", *INTERNAL_NAMES))
_UNSUPPORTED = ("variant", "geometry", "unknown")  # in every database


@dataclass(frozen=True, slots=True)
class RowLimit:
    """How much room a row has when all of its values that can lie elsewhere do."""

    max_bytes: int
    head_bytes: int
    widths: Mapping[str, int]  # by declared type; what is not here may lie elsewhere, and takes a byte


@dataclass(frozen=True, slots=True, eq=False)
class InlinedRules:
    """What tables of inlined rows are in one catalog database.

    A type that is neither in `types` nor a decimal is declared as `text`, and kept as the text of its values.
    """

    database: str  # as people call it
    types: Mapping[str, str]
    max_columns: int
    text: str = "VARCHAR"
    decimal: str | None = None  # such as "DECIMAL({},{})", for precision and scale
    unsupported_types: frozenset[str] = frozenset()  # of columns; inside a container they are text
    system_names: frozenset[str] = frozenset()  # of columns that each table has
    max_name_bytes: int | None = None
    row_limit: RowLimit | None = None
    takes_nul: bool = True  # whether a text can hold that character


def inlined_type(column: Column, rules: InlinedRules) -> str:
    """Return the declared type of a column in the table of inlined rows."""
    if column.type in _UNSUPPORTED:
        raise UnsupportedType(f"column '{column.name}' of type '{column.type}' cannot be inlined", column=column.name)
    return _declared_type(column.type, rules)


@lru_cache(maxsize=1024)
def is_kept_as_text(type_: str, rules: InlinedRules) -> bool:
    """Tell whether a column of a type is kept as the text of its values."""
    return _declared_type(type_, rules) == rules.text


def _declared_type(type_: str, rules: InlinedRules) -> str:
    parameters = None if rules.decimal is None else decimal_parameters(type_)
    if rules.decimal is not None and parameters is not None:
        return rules.decimal.format(*parameters)
    return rules.types.get(type_, rules.text)


def find_uninlinable(columns: Sequence[Column], rules: InlinedRules) -> str | None:
    """Return the reason why rows of these columns cannot be inlined, or None when they can."""
    return _uninlinable(tuple(columns), rules)


@per_object
def _uninlinable(columns: tuple[Column, ...], rules: InlinedRules) -> str | None:
    reasons = (_reason(column, rules) for column in columns)
    return next((reason for reason in reasons if reason is not None), None) or _width_reason(columns, rules)


def _width_reason(columns: tuple[Column, ...], rules: InlinedRules) -> str | None:
    """Return why a row of so many columns has no place. Where that depends on its values the database will say so."""
    if len(columns) > rules.max_columns:
        return f"it has {len(columns)} columns, and at most {rules.max_columns} can be inlined"
    limit = rules.row_limit
    if limit is None:
        return None
    widths = (limit.widths.get(inlined_type(column, rules), 1) for column in columns)
    size = 3 * 8 + sum(widths) + limit.head_bytes + (len(columns) + 3) // 8
    if size <= limit.max_bytes:
        return None
    return (
        f"a row of its {len(columns)} columns takes {size} bytes, and {rules.database} has room for {limit.max_bytes}"
    )


def find_unreadable(columns: Sequence[Column]) -> str | None:
    """Return the reason why the extension could not read inlined rows of these columns, or None when it can.

    It makes the table all the same, and writes to it: DuckDB casts a text to a list of JSON values by parsing it as
    JSON, which the text that it writes is not.
    """
    return _unreadable(tuple(columns))


@per_object
def _unreadable(columns: tuple[Column, ...]) -> str | None:
    for column in columns:
        for node in column.walk():
            if node.type == "list" and node.children[0].type == "json":
                return f"column '{column.name}' holds lists of JSON values, which DuckDB cannot read inlined"
    return None


def find_unstorable(table: pa.Table, columns: Sequence[Column], rules: InlinedRules) -> str | None:
    """Return the reason why these very rows cannot be inlined, or None: a text may have to do without NUL."""
    if rules.takes_nul:
        return None
    for index in _with_nested_text(tuple(columns)):
        column, array = columns[index], single(table.column(index))
        if not _may_hold_nul(array, column):
            continue
        for leaf, values in leaves(array, column):
            if leaf.kind is Kind.TEXT and has_text(plain(values), "\x00"):
                return f"column '{column.name}' holds a NUL character inside a {column.type}"
    return None


def _may_hold_nul(array: pa.Array, column: Column) -> bool:
    """Look at the bytes of all texts inside, those of rows beside a slice included: nearly always the answer is no."""
    if column.kind is Kind.TEXT:
        data = plain(array).buffers()[2]
        return data is not None and b"\x00" in data.to_pybytes()
    if column.kind is Kind.LIST:
        children = [array.values]
    elif column.kind is Kind.MAP:
        children = [array.keys, array.items]
    else:
        children = [array.field(index) for index in range(len(column.children))]
    return any(_may_hold_nul(child, node) for child, node in zip(children, column.children, strict=True))


@per_object
def _with_nested_text(columns: tuple[Column, ...]) -> tuple[int, ...]:
    """Return the places of nested columns that hold texts somewhere inside."""
    nested = ((i, c) for i, c in enumerate(columns) if c.is_nested)
    return tuple(i for i, c in nested if any(node.kind is Kind.TEXT for node in c.walk()))


def _reason(column: Column, rules: InlinedRules) -> str | None:
    if column.name.lower() in RESERVED_NAMES:
        return f"column '{column.name}' has a name that tables of inlined rows use themselves"
    unsupported = next((node for node in column.walk() if node.type in _UNSUPPORTED), None)
    if unsupported is not None:
        return f"column '{column.name}' holds values of type '{unsupported.type}'"
    if rules.max_name_bytes is not None and len(column.name.encode()) > rules.max_name_bytes:
        return f"column '{column.name}' has a name longer than {rules.max_name_bytes} bytes"
    if column.name.lower() in rules.system_names:
        return f"column '{column.name}' has the name of a system column of {rules.database}"
    if column.type in rules.unsupported_types:
        return f"column '{column.name}' is of type '{column.type}', which {rules.database} does not have"
    return None
