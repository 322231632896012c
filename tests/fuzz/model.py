"""A third opinion for the random walks: tables as Python values, and how each type is written for DuckDB and for us.

Values are random from a seed: a walk is long, and its shape is what hypothesis shrinks.
"""

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random
from typing import Any, TypeAlias
from uuid import UUID

import pyarrow as pa

Value: TypeAlias = Any  # Any: a Python value of any column type
Row: TypeAlias = dict[str, Value]
Rows: TypeAlias = "Counter[tuple[Value, ...]]"

EPOCH = dt.datetime(2024, 2, 29, 12, 34, 56, 789012)  # noqa: DTZ001 # a timestamp without zone
WORDS = (
    "",
    "a",
    "b c",
    "it's",
    'say "x"',
    "NULL",
    "null",
    "ä€🦆",
    "back\\slash",
    "{1, 2}",
    "z" * 30,
    "1",
    "tab\tnew\nline",
)
# The extension inlines structs on SQLite and PostgreSQL in a syntax that it misreads itself: quotes get lost; dates,
# timestamps, uuids, blobs and NaN make the table unreadable. So texts in structs are plain here, the rest numbers.
PLAIN_WORDS = ("a", "bc", "x1", "zzz")


@dataclass(frozen=True, slots=True, repr=False)
class Type:
    """A column type: its names, its Arrow type for writing, its values."""

    lake: str
    sql: str
    arrow: pa.DataType
    make: Callable[[Random], Value]
    fields: tuple[tuple[str, "Type"], ...] = ()  # of a struct

    def _repr_pretty_(self, printer: Any, _cycle: object) -> None:  # Any: hypothesis has no public type for it
        printer.text(self.lake)

    @property
    def is_struct(self) -> bool:
        return bool(self.fields)

    @property
    def is_scalar(self) -> bool:
        return not pa.types.is_nested(self.arrow)


def _decimal(random: Random) -> Decimal:
    return Decimal(random.randint(-99999, 99999)).scaleb(-2)


def _float(random: Random) -> float:
    special = (math.nan, math.inf, -math.inf, -0.0, 0.0)
    return random.choice(special) if random.random() < 0.2 else random.randint(-4000, 4000) / 4


def _time(random: Random) -> dt.datetime:
    return EPOCH + dt.timedelta(seconds=random.randint(-(10**9), 10**9), microseconds=random.randint(0, 999999))


SCALARS = {
    t.lake: t
    for t in (
        Type("int16", "SMALLINT", pa.int16(), lambda r: r.choice((r.randint(-9, 9), r.randint(-32768, 32767)))),
        Type("int32", "INTEGER", pa.int32(), lambda r: r.choice((r.randint(-9, 9), r.randint(-(2**31), 2**31 - 1)))),
        Type("int64", "BIGINT", pa.int64(), lambda r: r.choice((r.randint(-9, 9), r.randint(-(2**63), 2**63 - 1)))),
        Type("uint16", "USMALLINT", pa.uint16(), lambda r: r.randint(0, 65535)),
        Type("uint64", "UBIGINT", pa.uint64(), lambda r: r.choice((r.randint(0, 9), r.randint(0, 2**64 - 1)))),
        Type("float32", "FLOAT", pa.float32(), _float),
        Type("float64", "DOUBLE", pa.float64(), _float),
        Type("decimal(9,2)", "DECIMAL(9,2)", pa.decimal128(9, 2), _decimal),
        Type("decimal(18,4)", "DECIMAL(18,4)", pa.decimal128(18, 4), _decimal),
        Type("boolean", "BOOLEAN", pa.bool_(), lambda r: r.random() < 0.5),
        Type("varchar", "VARCHAR", pa.string(), lambda r: r.choice(WORDS)),
        Type("blob", "BLOB", pa.binary(), lambda r: r.choice((b"", b"\0\xff", b"abc", b"\\x41"))),
        Type("uuid", "UUID", pa.string(), lambda r: str(UUID(int=r.getrandbits(128)))),
        Type("date", "DATE", pa.date32(), lambda r: _time(r).date()),
        Type("timestamp", "TIMESTAMP", pa.timestamp("us"), _time),
        Type("timestamptz", "TIMESTAMPTZ", pa.timestamp("us", "UTC"), lambda r: _time(r).replace(tzinfo=dt.UTC)),
        Type("time", "TIME", pa.time64("us"), lambda r: _time(r).time()),
    )
}
PLAIN = replace(SCALARS["varchar"], make=lambda r: r.choice(PLAIN_WORDS))
PROMOTIONS = {
    "int16": ("int32", "int64", "float32", "float64"),
    "int32": ("int64", "float64"),
    "uint16": ("int32", "int64", "uint64"),
    "float32": ("float64",),
    "decimal(9,2)": ("decimal(18,4)",),
    "date": ("timestamp",),
}


def struct_of(*fields: tuple[str, Type]) -> Type:
    """Return a struct type; its values are sometimes null, and so are their fields."""
    return Type(
        f"struct({', '.join(f'{name} {t.lake}' for name, t in fields)})",
        f"STRUCT({', '.join(f'{name} {t.sql}' for name, t in fields)})",
        pa.struct([(name, t.arrow) for name, t in fields]),
        lambda r: {name: maybe(r, t) for name, t in fields},
        fields,
    )


def list_of(element: Type) -> Type:
    make: Callable[[Random], Value] = lambda r: [maybe(r, element) for _ in range(r.randint(0, 3))]  # noqa: E731 # short
    return Type(f"list({element.lake})", f"{element.sql}[]", pa.list_(element.arrow), make)


def map_of(key: Type, value: Type) -> Type:
    def make(random: Random) -> Value:
        keys = {canonical(k): k for k in (key.make(random) for _ in range(random.randint(0, 3)))}
        return [(k, maybe(random, value)) for k in keys.values()]

    return Type(f"map({key.lake}, {value.lake})", f"MAP({key.sql}, {value.sql})", pa.map_(key.arrow, value.arrow), make)


STRUCT = struct_of(("a", SCALARS["int32"]), ("b", PLAIN))
NESTED = (
    STRUCT,
    list_of(SCALARS["int32"]),
    list_of(SCALARS["varchar"]),
    map_of(SCALARS["varchar"], SCALARS["int64"]),
    list_of(STRUCT),
    struct_of(("n", STRUCT), ("l", list_of(SCALARS["int16"]))),
)
TYPES = (*SCALARS.values(), *NESTED)


def maybe(random: Random, type_: Type) -> Value:
    return None if random.random() < 0.15 else type_.make(random)


@dataclass(frozen=True, slots=True)
class TableModel:
    """A table as it should be: columns in order, and rows."""

    columns: tuple[tuple[str, Type], ...]
    rows: tuple[Row, ...] = ()
    keys: frozenset[str] = frozenset()  # columns that partition or sort it
    names_used: frozenset[str] = field(default=frozenset())

    def type_of(self, name: str) -> Type:
        return dict(self.columns)[name]

    def make_rows(self, seed: int, count: int) -> tuple[Row, ...]:
        random = Random(seed)  # noqa: S311 # data for tests
        return tuple({name: maybe(random, t) for name, t in self.columns} for _ in range(count))

    def arrow(self, rows: Sequence[Row]) -> pa.Table:
        return pa.table({name: pa.array([row[name] for row in rows], t.arrow) for name, t in self.columns})

    def values_sql(self, rows: Sequence[Row]) -> str:
        return ", ".join(f"({', '.join(literal(row[n], t) for n, t in self.columns)})" for row in rows)

    def counted(self) -> Rows:
        return Counter(tuple(canonical(row[name]) for name, _ in self.columns) for row in self.rows)

    def fresh_name(self) -> str:
        return f"c{len(self.names_used)}"

    def with_column(self, name: str, type_: Type, default: Value) -> "TableModel":
        rows = tuple({**row, name: default} for row in self.rows)
        return replace(self, columns=(*self.columns, (name, type_)), rows=rows, names_used=self.names_used | {name})

    def without(self, name: str) -> "TableModel":
        return replace(self, columns=tuple(c for c in self.columns if c[0] != name))

    def renamed(self, name: str, new: str) -> "TableModel":
        columns = tuple((new if n == name else n, t) for n, t in self.columns)
        rows = tuple({**row, new: row[name]} for row in self.rows)
        return replace(self, columns=columns, rows=rows, names_used=self.names_used | {new})

    def retyped(self, name: str, type_: Type, convert: Callable[[Value], Value]) -> "TableModel":
        columns = tuple((n, type_ if n == name else t) for n, t in self.columns)
        rows = tuple({**row, name: None if row[name] is None else convert(row[name])} for row in self.rows)
        return replace(self, columns=columns, rows=rows)


def promoted(value: Value, new: Type) -> Value:
    match new.lake:
        case "float32" | "float64":
            return float(value)
        case "timestamp" if not isinstance(value, dt.datetime):
            return dt.datetime.combine(value, dt.time())
    return value


@dataclass(frozen=True, slots=True)
class Filter:
    """One comparison, as SQL that DuckDB and we understand, and as a function."""

    sql: str
    keeps: Callable[[Row], bool]


def filters_of(table: TableModel, seed: int) -> Filter:
    """Make a filter on a column, most often with a value that some row has."""
    random = Random(seed)  # noqa: S311 # data for tests
    name, type_ = random.choice([c for c in table.columns if c[1].is_scalar])
    present = [row[name] for row in table.rows if row[name] is not None]
    value = random.choice(present) if present and random.random() < 0.8 else type_.make(random)
    operator = random.choice(("=", "=", "<", ">=", "<>", "IS NULL", "IS NOT NULL"))
    if operator.startswith("IS"):
        return Filter(f"{name} {operator}", lambda row: (row[name] is None) == (operator == "IS NULL"))
    wanted = rank(value)

    def keeps(row: Row) -> bool:
        if row[name] is None:
            return False
        found = rank(row[name])
        results = {"=": found == wanted, "<": found < wanted, ">=": found >= wanted, "<>": found != wanted}
        return bool(results[operator])

    return Filter(f"{name} {operator} {literal(value, type_)}", keeps)


def rank(value: Value) -> Value:
    """Return what orders values as DuckDB does: NaN is equal to itself and the greatest; texts by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def default_literal(value: Value) -> str:
    """Write a value as SQL without a cast: the extension takes no other default for a column that it adds."""
    return str(value) if isinstance(value, (bool, int, Decimal)) else _bare(str(value))


def literal(value: Value, type_: Type) -> str:  # noqa: PLR0911 # one per kind of value
    """Write a value as SQL."""
    if value is None:
        return "NULL"
    if type_.is_struct:
        return "{" + ", ".join(f"'{n}': {literal(value[n], t)}" for n, t in type_.fields) + f"}}::{type_.sql}"
    match value:
        case bool():
            return str(value).lower()
        case int():
            return f"CAST({value} AS {type_.sql})"
        case bytes():
            return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
        case list() if type_.lake.startswith("map"):
            entries = ", ".join(f"{_bare(k)}: {_bare(v)}" for k, v in value)
            return f"MAP {{{entries}}}::{type_.sql}" if value else f"MAP {{}}::{type_.sql}"
        case list():
            return "[" + ", ".join(_bare(v) for v in value) + f"]::{type_.sql}"
        case str():
            return f"{_bare(value)}::{type_.sql}" if type_.sql != "VARCHAR" else _bare(value)
    return f"'{value}'::{type_.sql}"


def _bare(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case dict():
            return "{" + ", ".join(f"'{n}': {_bare(v)}" for n, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(_bare(v) for v in value) + "]"
    return str(value)


def counted(table: pa.Table) -> Rows:
    """Return the rows of an Arrow table as a multiset."""
    columns = [[canonical(v) for v in table.column(i).to_pylist()] for i in range(table.num_columns)]
    return Counter(zip(*columns, strict=True)) if columns else Counter()


def canonical(value: Value) -> Value:  # noqa: PLR0911 # one per kind of value
    """Return a value that compares and hashes: equal exactly when a user would call them the same."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else repr(value)
        case Decimal():
            return format(value.normalize(), "f")
        case UUID():
            return str(value)
        case dt.datetime():
            return value.astimezone(dt.UTC).isoformat() if value.tzinfo else value.isoformat()
        case dict():
            return tuple((name, canonical(v)) for name, v in value.items())
        case list() | tuple():
            return tuple(canonical(v) for v in value)
    return value
