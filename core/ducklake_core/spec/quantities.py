"""Sizes and times as people write them: `64MB`, `5m`, `5 minutes`. Pure."""

from __future__ import annotations

import re
from datetime import timedelta

LARGEST_SIZE = 2**63 - 1  # what columns of databases and files hold
LONGEST_TIME = timedelta(days=36_525)  # what clocks and waits can count with
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def _by_word(*units: tuple[float, str]) -> dict[str, float]:
    """Return how much each word is worth; words of one unit are separated by spaces."""
    return {word: worth for worth, words in units for word in words.split()}


_SIZES = {"": 1.0} | _by_word(
    (1, "b byte bytes"),
    (10**3, "kb kilobyte kilobytes"),
    (10**6, "mb megabyte megabytes"),
    (10**9, "gb gigabyte gigabytes"),
    (10**12, "tb terabyte terabytes"),
    (2**10, "kib kibibyte kibibytes"),
    (2**20, "mib mebibyte mebibytes"),
    (2**30, "gib gibibyte gibibytes"),
    (2**40, "tib tebibyte tebibytes"),
)
_SECONDS = {"": 1.0} | _by_word(
    (0.001, "ms milli millis millisecond milliseconds"),
    (1, "s sec secs second seconds"),
    (60, "m min mins minute minutes"),
    (3600, "h hr hrs hour hours"),
    (86400, "d day days"),
    (7 * 86400, "w week weeks"),
)


def parse_size(value: object, *, least: int = 1) -> int:
    """Return a number of bytes from a number or a text such as `64MB` or `64 megabytes`; raise ValueError."""
    match = _QUANTITY.fullmatch(str(value))
    worth = None if match is None else _SIZES.get(match.group(2).lower())
    size = -1.0 if match is None or worth is None else float(match.group(1)) * worth
    if not least <= size <= LARGEST_SIZE:
        raise ValueError("a size such as 1048576, '64MB' or '64 MiB'")
    return int(size)


def parse_duration(value: object) -> timedelta:
    """Return a time from seconds or a text such as `5m` or `5 minutes`; raise ValueError."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else _seconds(str(value))
    if seconds is None or not 0 <= seconds <= LONGEST_TIME.total_seconds():
        raise ValueError("a number of seconds or a text such as '90s', '5m' or '5 minutes', 100 years at most")
    return value if isinstance(value, timedelta) else timedelta(seconds=seconds)


def _seconds(text: str) -> float | None:
    match = _QUANTITY.fullmatch(text)
    if match is None or match.group(2).lower() not in _SECONDS:
        return None
    return float(match.group(1)) * _SECONDS[match.group(2).lower()]
