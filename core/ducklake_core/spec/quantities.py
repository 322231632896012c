"""Sizes and times as people write them: `64MB`, `5m`, `5 minutes`. Pure."""

from __future__ import annotations

import re
from datetime import timedelta

LARGEST_SIZE = 2**63 - 1  # what columns of databases and files hold
LONGEST_TIME = timedelta(days=36_525)  # what clocks and waits can count with
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")

_INTERVAL_PART = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z]+)"
    r"|(?P<hours>\d{1,9}):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?))\s*"
)


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
_INTERVAL_SECONDS = _SECONDS | _by_word(
    (30 * 86400, "mon mons month months"),
    (90 * 86400, "quarter quarters"),
    (365 * 86400, "y yr yrs year years"),
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


def parse_interval(text: str) -> timedelta:
    """Return a time from an interval of DuckDB, such as `1 month 2 days 12:00:00`, or from what `parse_duration` takes.

    A month is 30 days, a year 365. Raises ValueError.
    """
    seconds, position = 0.0, 0
    while position < len(text):
        part = _INTERVAL_PART.match(text, position)
        worth = None if part is None else _part_seconds(part)
        if part is None or worth is None:
            return parse_duration(text)
        seconds, position = seconds + worth, part.end()
    return parse_duration(timedelta(seconds=min(seconds, 2 * LONGEST_TIME.total_seconds())) if text else text)


def _part_seconds(part: re.Match[str]) -> float | None:
    if part["unit"] is None:
        return 3600.0 * int(part["hours"]) + 60.0 * int(part["minutes"]) + float(part["seconds"])
    worth = _INTERVAL_SECONDS.get(part["unit"].lower())
    return None if worth is None else float(part["number"]) * worth


def _seconds(text: str) -> float | None:
    match = _QUANTITY.fullmatch(text)
    if match is None or match.group(2).lower() not in _SECONDS:
        return None
    return float(match.group(1)) * _SECONDS[match.group(2).lower()]
