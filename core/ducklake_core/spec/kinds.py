"""What kind of values a type has, worked out once for each column (`Column.kind`). Pure; runs everywhere.

A question about a kind is asked of `Kind`. What belongs to one type alone, such as its encoder, is in tables by the
type's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple


class Kind(Enum):
    """What values of a type are; types of one kind differ in size or unit."""

    BOOLEAN = auto()
    INTEGER = auto()
    DECIMAL = auto()
    FLOAT = auto()
    TEXT = auto()  # of any content: varchar and json
    BLOB = auto()
    GEOMETRY = auto()
    UUID = auto()
    DATE = auto()
    TIME = auto()
    TIMETZ = auto()
    TIMESTAMP = auto()  # of no zone
    TIMESTAMPTZ = auto()
    INTERVAL = auto()
    STRUCT = auto()
    LIST = auto()
    MAP = auto()
    OPAQUE = auto()  # which tables may have, and nobody but DuckDB reads or writes


NESTED = (Kind.STRUCT, Kind.LIST, Kind.MAP)
EXACT_NUMBERS = (Kind.INTEGER, Kind.DECIMAL)
# Those whose order nobody keeps in statistics: it is not that of their texts, or there is none.
UNORDERED = (Kind.INTERVAL, Kind.TIMETZ, Kind.GEOMETRY, Kind.OPAQUE)

_KINDS: Mapping[str, Kind] = {
    "boolean": Kind.BOOLEAN,
    **dict.fromkeys((f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64, 128)), Kind.INTEGER),
    **dict.fromkeys(("float32", "float64"), Kind.FLOAT),
    **dict.fromkeys(("varchar", "json"), Kind.TEXT),
    "blob": Kind.BLOB,
    "geometry": Kind.GEOMETRY,
    "uuid": Kind.UUID,
    "date": Kind.DATE,
    **dict.fromkeys(("time", "time_ns"), Kind.TIME),
    "timetz": Kind.TIMETZ,
    **dict.fromkeys(("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"), Kind.TIMESTAMP),
    "timestamptz": Kind.TIMESTAMPTZ,
    "interval": Kind.INTERVAL,
    "struct": Kind.STRUCT,
    "list": Kind.LIST,
    "map": Kind.MAP,
}


class DecimalParameters(NamedTuple):
    """How many digits a decimal type has, and how many of them follow the point."""

    precision: int
    scale: int

    @property
    def whole_digits(self) -> int:
        return self.precision - self.scale

    @property
    def fits_int64(self) -> bool:
        """Whether the unscaled values fit 64 bits, the lower half of what Arrow has for them."""
        return self.precision <= 18


@lru_cache(maxsize=1024)
def kind_of(type_: str) -> Kind:
    """Return the kind of a type text; a text that is no type has one as well, so that errors can name it."""
    return _KINDS.get(type_, Kind.OPAQUE if decimal_parameters(type_) is None else Kind.DECIMAL)


@lru_cache(maxsize=1024)
def decimal_parameters(type_: str) -> DecimalParameters | None:
    """Return precision and scale of a decimal type text, None for any other type."""
    match = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", type_)
    return DecimalParameters(int(match[1]), int(match[2])) if match else None
