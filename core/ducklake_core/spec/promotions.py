"""Which type changes lose nothing: fewer than the reference allows, which also widens into floats that round. Pure."""

from __future__ import annotations

from ducklake_core.spec.kinds import decimal_parameters

_SIGNED_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "int128": 128}
_UNSIGNED_BITS = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "uint128": 128}
_FLOAT_MANTISSA = {"float32": 24, "float64": 53}
# Units that hold every value of the other; nanoseconds reach only the years 1677 to 2262, so nothing widens to them.
_TEMPORAL = {
    "date": {"timestamp", "timestamp_s", "timestamp_ms"},
    "timestamp_s": {"timestamp", "timestamp_ms"},
    "timestamp_ms": {"timestamp"},
}


def is_promotion(old: str, new: str) -> bool:
    """Tell whether every value of the old type is exactly a value of the new one."""
    if old == new:
        return True
    bits = _value_bits(old)
    if bits is not None:
        return _holds_integer(new, bits, is_unsigned=old in _UNSIGNED_BITS)
    decimal_old, decimal_new = decimal_parameters(old), decimal_parameters(new)
    if decimal_old and decimal_new:
        return decimal_new.scale >= decimal_old.scale and decimal_new.whole_digits >= decimal_old.whole_digits
    return (old, new) == ("float32", "float64") or new in _TEMPORAL.get(old, ())


def _value_bits(type_: str) -> int | None:
    """Return the bits an integer type has for its magnitude."""
    if type_ in _SIGNED_BITS:
        return _SIGNED_BITS[type_] - 1
    return _UNSIGNED_BITS.get(type_)


def _holds_integer(new: str, bits: int, *, is_unsigned: bool) -> bool:
    if new in _UNSIGNED_BITS:
        return is_unsigned and _UNSIGNED_BITS[new] >= bits
    if new in _SIGNED_BITS:
        return _SIGNED_BITS[new] - 1 >= bits
    if new in _FLOAT_MANTISSA:
        return _FLOAT_MANTISSA[new] >= bits
    decimal = decimal_parameters(new)
    return decimal is not None and decimal.whole_digits >= len(str(2**bits))
