"""How a table's columns are declared in its table of inlined rows, and which columns cannot be there. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from ducklake_core.errors import UnsupportedType
from ducklake_core.model import Column
from ducklake_core.spec.arrays import has_text, leaves, plain, single
from ducklake_core.spec.memo import per_object
from ducklake_core.spec.types import INTERNAL_NAMES, decimal_parameters

# Names the table of inlined rows has itself, or the extension refuses there (compared regardless of case).
RESERVED_NAMES = frozenset(("row_id", "begin_snapshot", "end_snapshot", *INTERNAL_NAMES))
# https://www.postgresql.org/docs/current/ddl-system-columns.html: no table can have a column of these names.
_POSTGRESQL_SYSTEM_NAMES = frozenset(("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"))
_POSTGRESQL_NAME_BYTES = 63  # NAMEDATALEN - 1

# https://www.postgresql.org/docs/current/limits.html: 1,600 columns, and a row must fit on a page when all of its
# values that can be moved out of it are: 8,160 bytes, with a head of 24 and a bit for each column.
# https://www.sqlite.org/limits.html: 2,000 columns of a table, and of a result, which has one more where rows are read.
_MOST_COLUMNS: Mapping[str, int] = {"postgresql": 1600 - 3, "sqlite": 2000 - 4}
_POSTGRESQL_ROW_BYTES = 8160
_POSTGRESQL_WIDTHS: Mapping[str, int] = {
    **dict.fromkeys(("BIGINT", "DOUBLE PRECISION", "TIME"), 8),
    **dict.fromkeys(("INTEGER", "REAL"), 4),
    **dict.fromkeys(("UUID", "INTERVAL"), 16),
    "SMALLINT": 2,
    "BOOLEAN": 1,
    "TIME WITH TIME ZONE": 12,
}

_POSTGRESQL: Mapping[str, str] = {
    "boolean": "BOOLEAN",
    "int8": "SMALLINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "INTEGER",
    "uint16": "INTEGER",
    "uint32": "BIGINT",
    "float32": "REAL",
    "float64": "DOUBLE PRECISION",
    "time": "TIME",
    "timetz": "TIME WITH TIME ZONE",
    "interval": "INTERVAL",
    # Bytes, since a text of PostgreSQL cannot hold the character NUL.
    "varchar": "BYTEA",
    "json": "BYTEA",
    "blob": "BYTEA",
    "uuid": "UUID",
}
_SQLITE: Mapping[str, str] = {
    **dict.fromkeys(("boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"), "BIGINT"),
    "blob": "BLOB",
}


def inlined_type(column: Column, dialect: str) -> str:
    """Return the declared type of a column in the table of inlined rows; `VARCHAR` is the text of the value."""
    if column.type in ("variant", "geometry", "unknown"):
        raise UnsupportedType(f"column '{column.name}' of type '{column.type}' cannot be inlined", column=column.name)
    if dialect == "sqlite":
        return _SQLITE.get(column.type, "VARCHAR")
    parameters = decimal_parameters(column.type)
    if parameters is not None:
        return f"DECIMAL({parameters[0]},{parameters[1]})"
    return _POSTGRESQL.get(column.type, "VARCHAR")


def find_uninlinable(columns: Sequence[Column], dialect: str) -> str | None:
    """Return the reason why rows of these columns cannot be inlined, or None when they can."""
    return _uninlinable(tuple(columns), dialect)


@per_object
def _uninlinable(columns: tuple[Column, ...], dialect: str) -> str | None:
    reasons = (_reason(column, dialect) for column in columns)
    return next((reason for reason in reasons if reason is not None), None) or _width_reason(columns, dialect)


def _width_reason(columns: tuple[Column, ...], dialect: str) -> str | None:
    """Return why a row of so many columns has no place. Where that depends on its values the database will say so."""
    most = _MOST_COLUMNS[dialect]
    if len(columns) > most:
        return f"it has {len(columns)} columns, and at most {most} can be inlined"
    if dialect != "postgresql":
        return None
    widths = (_POSTGRESQL_WIDTHS.get(inlined_type(column, dialect), 1) for column in columns)
    size = 3 * 8 + sum(widths) + 24 + (len(columns) + 3) // 8
    most_bytes = _POSTGRESQL_ROW_BYTES
    if size > most_bytes:
        return f"a row of its {len(columns)} columns takes {size} bytes, and PostgreSQL has room for {most_bytes}"
    return None


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


def find_unstorable(table: pa.Table, columns: Sequence[Column], dialect: str) -> str | None:
    """Return the reason why these very rows cannot be inlined, or None: a text of PostgreSQL cannot hold NUL."""
    if dialect != "postgresql":
        return None
    for index in _with_nested_text(tuple(columns)):
        column, array = columns[index], single(table.column(index))
        if not _may_hold_nul(array, column):
            continue
        for leaf, values in leaves(array, column):
            if leaf.type in ("varchar", "json") and has_text(plain(values), "\x00"):
                return f"column '{column.name}' holds a NUL character inside a {column.type}"
    return None


def _may_hold_nul(array: pa.Array, column: Column) -> bool:
    """Look at the bytes of all texts inside, those of rows beside a slice included: nearly always the answer is no."""
    if column.type in ("varchar", "json"):
        data = plain(array).buffers()[2]
        return data is not None and b"\x00" in data.to_pybytes()
    if column.type == "list":
        children = [array.values]
    elif column.type == "map":
        children = [array.keys, array.items]
    else:
        children = [array.field(index) for index in range(len(column.children))]
    return any(_may_hold_nul(child, node) for child, node in zip(children, column.children, strict=True))


@per_object
def _with_nested_text(columns: tuple[Column, ...]) -> tuple[int, ...]:
    """Return the places of nested columns that hold texts somewhere inside."""
    nested = ((i, c) for i, c in enumerate(columns) if c.is_nested)
    return tuple(i for i, c in nested if any(node.type in ("varchar", "json") for node in c.walk()))


def _reason(column: Column, dialect: str) -> str | None:
    name = column.name.lower()
    if name in RESERVED_NAMES:
        return f"column '{column.name}' has a name that tables of inlined rows use themselves"
    homeless = next((node for node in column.walk() if node.type in ("variant", "geometry", "unknown")), None)
    if homeless is not None:
        return f"column '{column.name}' holds values of type '{homeless.type}'"
    return _postgresql_reason(column) if dialect == "postgresql" else None


def _postgresql_reason(column: Column) -> str | None:
    if len(column.name.encode()) > _POSTGRESQL_NAME_BYTES:
        return f"column '{column.name}' has a name longer than {_POSTGRESQL_NAME_BYTES} bytes"
    if column.name.lower() in _POSTGRESQL_SYSTEM_NAMES:
        return f"column '{column.name}' has the name of a system column of PostgreSQL"
    if column.type == "time_ns":  # inside a container it is text, and can
        return f"column '{column.name}' is of type 'time_ns', which PostgreSQL does not have"
    return None
