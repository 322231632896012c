"""DuckDB's text of scalar values, both ways, a column at a time. Pure; runs everywhere.

`scalar_to_text` writes what DuckDB's cast to VARCHAR writes, and `text_of` the same of one value; `scalar_from_text`
reads what its cast from VARCHAR reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.errors import CorruptCatalog, UnsupportedType
from ducklake_core.spec import temporal_text
from ducklake_core.spec.arrays import no_text, plain, strings_of, validity_of
from ducklake_core.spec.kinds import DecimalParameters, decimal_parameters
from ducklake_core.spec.types import scalar_arrow_type

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_UUID_WIDTH = 36
_UUID_DASHES = (8, 13, 18, 23)
_UUID_DIGITS = np.setdiff1d(np.arange(_UUID_WIDTH), _UUID_DASHES)
_FEW_VALUES = 16
_UNSAFE_BYTES = re.compile(r"[^ !#-&(-\[\]-~]")  # not printable ASCII, or one of \ ' "
_ESCAPED_BYTE = re.compile(r"\\x([0-9A-Fa-f]{2})")
_BOOLEANS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "t", "1", "yes", "y", "on"), True),
    **dict.fromkeys(("false", "f", "0", "no", "n", "off"), False),
}


def scalar_to_text(array: pa.Array, type_: str) -> pa.Array:
    """Return DuckDB's text of each value of a type without children; null stays null."""
    decimal = decimal_parameters(type_)
    if decimal is not None:
        return _decimal_to_text(array, decimal)
    try:
        return _TO_TEXT[type_](array)
    except KeyError:
        raise UnsupportedType(f"values of type '{type_}' have no text form", type=type_) from None


def scalar_from_text(texts: pa.Array, type_: str, name: str) -> pa.Array:
    """Parse texts of a type without children; raise `CorruptCatalog` naming the column and the text that is none."""
    parse = _FROM_TEXT.get(type_, _cast_from_text)
    try:
        return parse(texts, scalar_arrow_type(type_))
    except (ValueError, OverflowError):  # pa.ArrowInvalid is a ValueError
        text = _first_bad(texts, lambda one: parse(one, scalar_arrow_type(type_)))
        raise CorruptCatalog(
            f"column '{name}' of type '{type_}' holds a text that is no such value: {text!r}", column=name, text=text
        ) from None


# ------------------------------------------------------------------------------------------ to text


def _cast_to_text(array: pa.Array) -> pa.Array:
    return array.cast(pa.string())


def _float64_to_text(array: pa.Array) -> pa.Array:
    """Format with Arrow what it writes as DuckDB does, and with Python, which always does, the rest.

    Of few values, such as bounds, Python has written all before Arrow has looked which are which.
    """
    if len(array) <= _FEW_VALUES:
        return pa.array([None if value is None else repr(value) for value in array.to_pylist()], pa.string())
    text = array.cast(pa.string())
    size = pc.abs(array)
    smallest, largest = _plain_range()
    between = pc.and_(pc.greater_equal(size, smallest), pc.less(size, largest))
    usual = pc.and_(between, pc.match_substring(text, "."))  # Arrow writes 1, DuckDB 1.0
    if array.null_count == 0 and pc.all(usual).as_py():
        return text
    unusual = pc.fill_null(pc.invert(usual), _no())
    return pc.replace_with_mask(text, unusual, pa.array(map(repr, array.filter(unusual).to_pylist()), pa.string()))


@cache
def _plain_range() -> tuple[pa.Scalar, pa.Scalar]:
    """Return the smallest float that Arrow writes without an exponent, and the first that it does not."""
    return pa.scalar(1e-4), pa.scalar(1e10)


@cache
def _no() -> pa.Scalar:
    return pa.scalar(value=False)


def _float32_to_text(array: pa.Array) -> pa.Array:
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    return _masked(pa.array([format_float32(v) for v in values], pa.string()), array)


def format_float32(value: np.float32) -> str:
    """Format a float with the fewest digits; DuckDB takes one or two more for some large numbers, of the same value."""
    if value == 0 or 1e-4 <= abs(value) < 1e16:
        return np.format_float_positional(value, unique=True, trim="0")
    return np.format_float_scientific(value, unique=True, trim="-")  # also nan, inf and -inf


def _decimal_to_text(array: pa.Array, decimal: DecimalParameters) -> pa.Array:
    text = array.cast(pa.string())
    if decimal.scale > 6:  # only then Arrow writes small values with an exponent
        rows = pc.match_substring(text, "E")
        if pc.any(rows).as_py():
            fixed = [format(Decimal(v), "f") for v in text.filter(rows).to_pylist()]
            text = pc.replace_with_mask(text, pc.fill_null(rows, _no()), pa.array(fixed, pa.string()))
    if decimal.scale == 0 or decimal.whole_digits:
        return text
    # DuckDB leaves out the zero before the point when the type has no digit for it.
    return pc.replace_substring(text, "0.", ".", max_replacements=1)


def _interval_to_text(array: pa.Array) -> pa.Array:
    if any(v is not None and v.nanoseconds % 1000 for v in array.to_pylist()):
        raise UnsupportedType("an interval finer than a microsecond cannot be stored in DuckLake")
    return temporal_text.interval_to_text(array)


def _uuid_to_text(array: pa.Array) -> pa.Array:
    storage = plain(array)
    start = storage.offset * 16
    data = np.frombuffer(storage.buffers()[1], np.uint8)[start : start + len(storage) * 16].reshape(-1, 16)
    text = np.full((len(storage), _UUID_WIDTH), ord("-"), np.uint8)
    digits = np.empty((len(storage), 32), np.uint8)
    digits[:, 0::2], digits[:, 1::2] = _HEX[data >> 4], _HEX[data & 15]
    text[:, _UUID_DIGITS] = digits
    return _masked(strings_of(text), storage)


def _blob_to_text(array: pa.Array) -> pa.Array:
    return pa.array([None if v is None else escape_blob(v) for v in plain(array).to_pylist()], pa.string())


def escape_blob(value: bytes) -> str:
    r"""Return DuckDB's text of a blob: printable ASCII as it is, other bytes as `\xNN`."""
    return _UNSAFE_BYTES.sub(lambda m: f"\\x{ord(m[0]):02X}", value.decode("latin-1"))


def _masked(text: pa.Array, array: pa.Array) -> pa.Array:
    return pc.if_else(array.is_valid(), text, no_text()) if array.null_count else text


_TO_TEXT: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    **dict.fromkeys(
        ("boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), _cast_to_text
    ),
    **dict.fromkeys(("int128", "uint128"), _cast_to_text),
    "float32": _float32_to_text,
    "float64": _float64_to_text,
    "date": temporal_text.date_to_text,
    **dict.fromkeys(("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"), temporal_text.timestamp_to_text),
    "timestamptz": lambda array: temporal_text.timestamp_to_text(array, "+00"),
    **dict.fromkeys(("time", "time_ns"), temporal_text.time_to_text),
    "interval": _interval_to_text,
    **dict.fromkeys(("varchar", "json", "timetz"), plain),
    "uuid": _uuid_to_text,
    "blob": _blob_to_text,
}


# ----------------------------------------------------------------------------------------- one value


@lru_cache(maxsize=256)
def text_of(type_: str) -> Callable[[Any], str]:  # Any: a value of the type
    """Return what makes DuckDB's text of one value: a moment is its ticks, a decimal its digits, a text its bytes."""
    decimal = decimal_parameters(type_)
    return _TEXTS[type_] if decimal is None else partial(_decimal_text, decimal=decimal)


def _decimal_text(unscaled: int, decimal: DecimalParameters) -> str:
    scale = decimal.scale
    if scale == 0:
        return str(unscaled)
    digits = str(abs(unscaled)).rjust(scale + (decimal.whole_digits > 0), "0")
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


_TEXTS: Mapping[str, Callable[[Any], str]] = {  # Any: see text_of
    "boolean": lambda value: "true" if value else "false",
    **dict.fromkeys((f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), str),
    "float32": lambda value: format_float32(np.float32(value)),
    "float64": repr,
    "date": temporal_text.format_date,
    "time": partial(temporal_text.format_time, ticks=10**6),
    "time_ns": partial(temporal_text.format_time, ticks=10**9),
    "timestamp": partial(temporal_text.format_timestamp, ticks=10**6, suffix=""),
    "timestamp_s": partial(temporal_text.format_timestamp, ticks=1, suffix=""),
    "timestamp_ms": partial(temporal_text.format_timestamp, ticks=1000, suffix=""),
    "timestamp_ns": partial(temporal_text.format_timestamp, ticks=10**9, suffix=""),
    "timestamptz": partial(temporal_text.format_timestamp, ticks=10**6, suffix="+00"),
    **dict.fromkeys(("varchar", "json"), bytes.decode),
    "blob": escape_blob,
}


# ---------------------------------------------------------------------------------------- from text


def _cast_from_text(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    try:
        return texts.cast(type_)
    except pa.ArrowInvalid:
        return pc.utf8_trim_whitespace(texts).cast(type_)


def _boolean_from_text(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    return pa.array([None if t is None else parse_boolean(t) for t in texts.to_pylist()], type_)


def parse_boolean(text: str) -> bool:
    """Parse a boolean as DuckDB's cast does; raise ValueError when it is none."""
    value = _BOOLEANS.get(text.strip().lower())
    if value is None:
        raise ValueError(text)
    return value


def _blob_from_text(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    return pa.array([None if t is None else parse_blob(t) for t in texts.to_pylist()], type_)


def parse_blob(text: str) -> bytes:
    """Parse DuckDB's text of a blob; a character beyond ASCII counts as its UTF-8 bytes."""
    parts = _ESCAPED_BYTE.split(text)  # text, digits, text, digits, … text
    return b"".join(bytes.fromhex(p) if i % 2 else p.encode() for i, p in enumerate(parts))


def _uuid_from_text(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    digits = pc.replace_substring_regex(texts, r"[-{}\s]", "")
    widths = pc.unique(pc.utf8_length(digits.drop_null())).to_pylist()
    if widths not in ([32], []):
        raise ValueError("a uuid has 32 digits")
    data = bytes.fromhex("".join(digits.fill_null("0" * 32).to_pylist()))
    validity = None if texts.null_count == 0 else pa.py_buffer(np.packbits(validity_of(texts), bitorder="little"))
    storage = pa.Array.from_buffers(pa.binary(16), len(texts), [validity, pa.py_buffer(data)])
    return pa.ExtensionArray.from_storage(type_, storage)


def _json_from_text(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    return pa.ExtensionArray.from_storage(type_, texts)


def _first_bad(texts: pa.Array, parse: Callable[[pa.Array], pa.Array]) -> str:
    for index in range(len(texts)):
        try:
            parse(texts.slice(index, 1))
        except (ValueError, OverflowError):
            return str(texts[index].as_py())
    return ""


_FROM_TEXT: Mapping[str, Callable[[pa.Array, pa.DataType], pa.Array]] = {
    "boolean": _boolean_from_text,
    "date": lambda texts, _: temporal_text.date_from_text(texts),
    **dict.fromkeys(
        ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz"), temporal_text.timestamp_from_text
    ),
    **dict.fromkeys(("time", "time_ns"), temporal_text.time_from_text),
    "interval": lambda texts, _: temporal_text.interval_from_text(texts),
    **dict.fromkeys(("varchar", "timetz"), lambda texts, _: texts),
    "json": _json_from_text,
    "uuid": _uuid_from_text,
    "blob": _blob_from_text,
}
