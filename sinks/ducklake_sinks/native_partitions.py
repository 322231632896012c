"""The partitions of a table, for Spark's own writer. Runs on the driver, classic client only.

Spark makes a file for each value of some columns, beside those that it stores. These are ours: rows that have the same
values there belong to the same partition of the table. What the values of that partition are is read from the files;
the names of Spark's directories do not tell, as they have the empty text as null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention

from ducklake_core.model import Column, Partitioning, PartitionKey
from ducklake_core.spec.kinds import decimal_parameters
from ducklake_core.spec.names import fold

GROUP = "_ducklake_internal_partition_"
_HEX_BYTES = 32  # of which a name has twice as many; keys of S3 have 1024 at most, with all directories
_DAY_SECONDS, _HOUR_SECONDS = 86_400, 3600

Grouping = Callable[[SparkColumn], SparkColumn]


def group_names(partitioning: Partitioning | None) -> list[str]:
    """Return the names of the columns by which Spark groups rows: one for each key."""
    return [f"{GROUP}{index}" for index, _ in enumerate(_keys(partitioning))]


def can_group(columns: Sequence[Column], partitioning: Partitioning | None) -> bool:
    """Tell whether Spark can keep partitions apart: it knows no hash that `bucket` could be made of."""
    is_free = not any(fold(column.name).startswith(GROUP) for column in columns)
    return all(_grouping(columns, key) is not None and is_free for key in _keys(partitioning))


def group_columns(
    sources: Mapping[str, SparkColumn], columns: Sequence[Column], partitioning: Partitioning | None
) -> list[SparkColumn]:
    """Return the columns by which Spark groups rows; `sources` has a frame's own by the folded names of the table's."""
    names = {column.column_id: fold(column.name) for column in columns}
    found = []
    for key, name in zip(_keys(partitioning), group_names(partitioning), strict=True):
        grouping = _grouping(columns, key)
        assert grouping is not None  # noqa: S101 # see can_group
        found.append(grouping(sources[names[key.column_id]]).alias(name))
    return found


def _keys(partitioning: Partitioning | None) -> tuple[PartitionKey, ...]:
    return () if partitioning is None else partitioning.keys


def _grouping(columns: Sequence[Column], key: PartitionKey) -> Grouping | None:
    type_ = next(column.type for column in columns if column.column_id == key.column_id)
    if key.transform == "identity":
        return _as_text if decimal_parameters(type_) is not None else _IDENTITY.get(type_)
    part, date_of = _PARTS.get(key.transform), _DATES.get(type_)
    if key.transform == "hour":
        return _HOURS.get(type_)
    return None if part is None or date_of is None else lambda value: part(date_of(value))


def _same(value: SparkColumn) -> SparkColumn:
    return value


def _as_text(value: SparkColumn) -> SparkColumn:
    return value.cast("string")


def _bytes(value: SparkColumn) -> SparkColumn:
    """Return bytes as the name of a directory, whatever they are and however many; none at all is not null."""
    value = value.cast("binary")  # without the collation of a text
    is_short = F.octet_length(value) <= _HEX_BYTES
    as_hex, as_digest = F.concat(F.lit("x"), F.hex(value)), F.concat(F.lit("sha2-"), F.sha2(value, 256))
    return F.when(is_short, as_hex).otherwise(as_digest)


# A timestamp is taken in UTC, as the format does; functions of Spark that take one apart go by the session's time zone.


def _utc_date(value: SparkColumn) -> SparkColumn:
    seconds = F.unix_seconds(value)  # rounded down
    whole = seconds - F.pmod(seconds, F.lit(_DAY_SECONDS))
    return F.date_from_unix_date((whole / _DAY_SECONDS).cast("int"))


def _utc_hour(value: SparkColumn) -> SparkColumn:
    seconds = F.pmod(F.unix_seconds(value), F.lit(_DAY_SECONDS))
    return ((seconds - F.pmod(seconds, F.lit(_HOUR_SECONDS))) / _HOUR_SECONDS).cast("int")


def _date(value: SparkColumn) -> SparkColumn:
    return value.cast("date")


_IDENTITY: Mapping[str, Grouping] = {
    **dict.fromkeys(("boolean", "int8", "int16", "int32", "int64", "date"), _same),
    "timestamp": lambda value: _bytes(_as_text(value)),  # a name that is the same as a part of a URI
    "timestamptz": F.unix_micros,
    "varchar": _bytes,
    "blob": _bytes,
}
_PARTS: Mapping[str, Grouping] = {"year": F.year, "month": F.month, "day": F.dayofmonth}
_DATES: Mapping[str, Grouping] = {"date": _same, "timestamp": _date, "timestamptz": _utc_date}
_HOURS: Mapping[str, Grouping] = {"timestamp": F.hour, "timestamptz": _utc_hour}
