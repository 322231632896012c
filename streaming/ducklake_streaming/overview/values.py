"""Values as people read them: numbers, sizes, times, ages. No Spark."""

from __future__ import annotations

from datetime import UTC, datetime

_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_AGES = ((86400, "d"), (3600, "h"), (60, "m"))


def shown_count(value: int | None) -> str:
    """Return a number with commas; nothing for None."""
    return "" if value is None else f"{value:,}"


def shown_size(value: int | None) -> str:
    """Return bytes in the largest unit of which there is one: `1.5 MB`."""
    if value is None:
        return ""
    size, unit = float(value), 0
    while size >= 999.5 and unit < len(_SIZES) - 1:
        size, unit = size / 1000, unit + 1
    return f"{value} B" if unit == 0 else f"{size:.3g} {_SIZES[unit]}"


def shown_rate(value: float | None) -> str:
    """Return rows per second."""
    return "" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def shown_time(value: datetime | None) -> str:
    """Return a time in UTC, to the second."""
    return "" if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def shown_age(seconds: float | None) -> str:
    """Return how long ago something was, in its two largest units: `2h 5m`."""
    if seconds is None:
        return ""
    rest = max(0, int(seconds))
    parts = []
    for worth, unit in _AGES:
        count, rest = divmod(rest, worth)
        parts.append((count, unit))
    parts.append((rest, "s"))
    first = next((index for index, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2] if count or len(parts) - first == 1)


def shown_flag(value: object) -> str:
    """Return yes or no."""
    return "yes" if value else "no"
