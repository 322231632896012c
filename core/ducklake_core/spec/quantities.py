"""Sizes and times as people write them: `64MB`, `5m`. Pure."""

from __future__ import annotations

import re
from datetime import timedelta

_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def parse_size(value: object) -> int:
    """Return a number of bytes from a number or a text such as `64MB`; raise ValueError."""
    match = _QUANTITY.fullmatch(str(value))
    if match is None or match.group(2).lower() not in _SIZES or float(match.group(1)) <= 0:
        raise ValueError("a size such as 1048576 or '64MB'")
    return int(float(match.group(1)) * _SIZES[match.group(2).lower()])


def parse_duration(value: object) -> timedelta:
    """Return a time from seconds or a text such as `5m`; raise ValueError."""
    if isinstance(value, timedelta):
        return value
    match = _QUANTITY.fullmatch(str(value))
    if match is None or match.group(2).lower() not in _SECONDS:
        raise ValueError("a number of seconds or a text such as '90s', '5m' or '1h'")
    return timedelta(seconds=float(match.group(1)) * _SECONDS[match.group(2).lower()])
