"""DuckLake columns as Spark's, and Arrow record batches of core as Spark demands them.

Runs where Spark plans (the schema) and on executors (the values). Nothing is rounded or cut: a type or a value that
Spark cannot hold is refused by an UnsupportedType that names the column. How to convert is decided once per schema; a
column that already is as Spark demands it is not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention
from pyspark.sql.pandas.types import to_arrow_schema

from ducklake_core.errors import UnsupportedType
from ducklake_core.files.nested import parts_of, plain_nested, with_parts
from ducklake_core.model import Column
from ducklake_core.spec.arrays import plain, validity_of
from ducklake_core.spec.kinds import decimal_parameters
from ducklake_core.spec.temporal_text import INFINITE_TICKS
from ducklake_core.spec.text import to_text
from ducklake_core.spec.types import arrow_type, type_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Convert: TypeAlias = Callable[[pa.Array], pa.Array]

_PLAIN: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "int8": T.ByteType(),
    "int16": T.ShortType(),
    "int32": T.IntegerType(),
    "int64": T.LongType(),
    "int128": T.DecimalType(38, 0),
    "uint8": T.ShortType(),
    "uint16": T.IntegerType(),
    "uint32": T.LongType(),
    "uint64": T.DecimalType(20, 0),
    "uint128": T.DecimalType(38, 0),
    "float32": T.FloatType(),
    "float64": T.DoubleType(),
    "time": T.TimeType(6),
    "time_ns": T.TimeType(6),
    "timetz": T.StringType(),
    "date": T.DateType(),
    "timestamp": T.TimestampNTZType(),
    "timestamp_s": T.TimestampNTZType(),
    "timestamp_ms": T.TimestampNTZType(),
    "timestamp_ns": T.TimestampNTZType(),
    "timestamptz": T.TimestampType(),
    "interval": T.StringType(),  # Spark hands no calendar interval to or from Python: DuckDB's text keeps all of it
    "varchar": T.StringType(),
    "json": T.StringType(),
    "blob": T.BinaryType(),
    "uuid": T.StringType(),
    "geometry": T.BinaryType(),  # well-known binary
}
_DAY_NANOSECONDS = 86_400 * 10**9
_REMEDY = "choose other columns with the option 'columns'"


def spark_schema(columns: Iterable[Column]) -> T.StructType:
    """Return the Spark schema of columns; raise UnsupportedType that lists all those that Spark cannot have."""
    columns = tuple(columns)
    problems = [problem for column in columns for problem in _problems(column, column.name)]
    if problems:
        raise UnsupportedType(f"{'; '.join(problems)}: {_REMEDY}", problems=problems)
    return T.StructType([T.StructField(column.name, _spark_type(column)) for column in columns])


def demanded_schema(schema: T.StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark demands rows of a schema."""
    in_utc: dict[str, Any] = {"timezone": "UTC"} if _HAS_TIMEZONE else {"timestamp_utc": True}  # Any: a text or a flag
    return to_arrow_schema(schema, **in_utc)


def local_frame(spark: SparkSession, rows: pa.Table, schema: T.StructType) -> DataFrame:
    """Return rows that the driver has. Spark does not take a nested column of Arrow that has no rows."""
    return spark.createDataFrame(rows if rows.num_rows else [], schema)


_HAS_TIMEZONE = "timezone" in signature(to_arrow_schema).parameters  # since Spark 4.2


@dataclass(frozen=True, slots=True)
class SparkBatches:
    """Makes record batches of Spark's schema from those that core reads. Build it with `of` on the executor."""

    schema: pa.Schema
    converts: tuple[Convert | None, ...]  # None: as it is

    @classmethod
    def of(cls, columns: Sequence[Column], extra: Sequence[T.StructField] = ()) -> SparkBatches:
        """Decide for columns, and further ones behind them which already are as Spark demands them."""
        fields = [*spark_schema(columns).fields, *extra]
        schema = demanded_schema(T.StructType(fields))
        converts = [_convert(column, field.type, column.name) for column, field in zip(columns, schema, strict=False)]
        return cls(schema, (*converts, *(None for _ in extra)))

    def convert(self, record_batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows as Spark demands them; columns are taken by their places."""
        if not any(self.converts) and record_batch.schema.equals(self.schema):
            return record_batch
        arrays = [
            array if convert is None else convert(array)
            for array, convert in zip(record_batch.columns, self.converts, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


# ------------------------------------------------------------------------------------------- the type


def _spark_type(column: Column) -> T.DataType:
    children = [_spark_type(child) for child in column.children]
    match column.type:
        case "struct":
            named = zip(column.children, children, strict=True)
            return T.StructType([T.StructField(child.name, type_) for child, type_ in named])
        case "list":
            return T.ArrayType(children[0])
        case "map":
            return T.MapType(children[0], children[1])
    parameters = decimal_parameters(column.type)
    return _PLAIN[column.type] if parameters is None else T.DecimalType(*parameters)


def _problems(column: Column, path: str) -> Iterator[str]:
    """Yield what Spark cannot have, with the path of names to it."""
    if not column.is_nested and column.type not in _PLAIN and decimal_parameters(column.type) is None:
        yield f"column '{path}' has type '{column.type}', which Spark cannot read from a DuckLake"
    if column.type == "map" and any(node.type == "map" for node in column.children[0].walk()):
        yield f"column '{path}' is a '{type_text(column)}', but Spark's maps have no maps for keys"
    for child in column.children:
        yield from _problems(child, f"{path}.{child.name}")


# ----------------------------------------------------------------------------------------- the values


def _convert(column: Column, target: pa.DataType, path: str) -> Convert | None:
    """Return how values of a column become those of a type that Spark demands, None when they are already."""
    if arrow_type(column) == target and not _may_refuse(column):
        return None
    return _nested(column, target, path) if column.is_nested else _scalar(column, target, path)


def _may_refuse(column: Column) -> bool:
    return column.type in _REFUSING or any(map(_may_refuse, column.children))


def _nested(column: Column, target: pa.DataType, path: str) -> Convert:
    if column.type == "struct":
        types = [field.type for field in target]
    else:
        types = [target.value_type] if column.type == "list" else [target.key_type, target.item_type]
    pairs = zip(column.children, types, strict=True)
    converts = [_convert(child, type_, f"{path}.{child.name}") for child, type_ in pairs]

    def convert(array: pa.Array) -> pa.Array:
        array = plain_nested(array)
        parts = zip(parts_of(array), converts, strict=True)
        return with_parts(array, target, [part if one is None else one(part) for part, one in parts])

    return convert


def _scalar(column: Column, target: pa.DataType, path: str) -> Convert:
    if column.type in ("interval", "uuid"):
        return lambda array: to_text(array, column)
    change = _CHANGES.get(column.type, _cast)

    def convert(array: pa.Array) -> pa.Array:
        try:
            return change(plain(array), target)
        except (pa.ArrowInvalid, _Unheld) as error:
            raise UnsupportedType(
                f"column '{path}' of type '{column.type}' has a value that Spark cannot hold ({error}): {_REMEDY}",
                column=path,
            ) from error

    return convert


class _Unheld(ValueError):
    """A value that Spark's type does not hold."""


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array if array.type == target else array.cast(target)


def _time(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Change the unit to Spark's nanoseconds, of which it keeps microseconds; DuckDB's days have a 24:00:00."""
    array = array.cast(target)
    nanoseconds = array.view(pa.int64()).fill_null(0).to_numpy()
    if len(nanoseconds) and nanoseconds.max() >= _DAY_NANOSECONDS:
        raise _Unheld("24:00:00, which is no time of Spark")
    _refuse_nanoseconds(nanoseconds)
    return array


def _timestamp(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Change the unit to microseconds, but keep the infinities, which are the same number in every unit."""
    factor = {"s": 10**6, "ms": 10**3}.get(array.type.unit, 1)
    ticks = array.view(pa.int64()).fill_null(0).to_numpy()
    is_infinite = np.abs(ticks) == INFINITE_TICKS
    finite = np.where(is_infinite, 0, ticks)
    if array.type.unit == "ns":
        _refuse_nanoseconds(finite)
        scaled = finite // 1000
    else:
        if len(finite) and np.abs(finite).max() > INFINITE_TICKS // factor:
            raise _Unheld("a time beyond the year 294247")
        scaled = finite * factor
    values = np.where(is_infinite, np.sign(ticks) * INFINITE_TICKS, scaled)
    return pa.array(values, mask=~validity_of(array) if array.null_count else None).view(target)


def _refuse_nanoseconds(ticks: np.ndarray) -> None:
    finer = ticks[ticks % 1000 != 0]
    if len(finer):
        raise _Unheld(f"{finer[0] % 1000} nanoseconds beyond a microsecond")


def _integer128(array: pa.Array, target: pa.DataType) -> pa.Array:
    bound = pa.scalar(10**target.precision, array.type)
    if pc.any(pc.or_(pc.greater_equal(array, bound), pc.less_equal(array, pc.negate(bound)))).as_py():
        raise _Unheld(f"a number of more than {target.precision} digits")
    return array.cast(target)


_CHANGES: dict[str, Callable[[pa.Array, pa.DataType], pa.Array]] = {
    "time": _time,
    "time_ns": _time,
    "timestamp_s": _timestamp,
    "timestamp_ms": _timestamp,
    "timestamp_ns": _timestamp,
    "int128": _integer128,
    "uint128": _integer128,
}
_REFUSING = frozenset({"time_ns"})  # Spark demands the same Arrow type, but does not hold all its values
