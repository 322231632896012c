"""DuckDB's text of dates, times, timestamps and intervals, both ways. Pure; runs everywhere.

Arrow's kernels do the years 1 to 9999; the rest (before Christ, year 10000 and later, infinity, offsets, `24:00:00`)
goes through Python, row by row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.spec.arrays import concatenated

INFINITE_DAYS = 2**31 - 1  # DuckDB's date 'infinity'; '-infinity' is its negative
INFINITE_TICKS = 2**63 - 1  # the same for timestamps, in every unit

_TICKS: Mapping[str, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # per second
_DAY_SECONDS = 86400
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # 0001-01-01 and 9999-12-31, counted from 1970-01-01

_DATE = r"(?P<year>\d+)-(?P<month>\d{1,2})-(?P<day>\d{1,2})(?P<bc> \(BC\))?"
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d+))?)?"
_ZONE = r"\s*(?P<zone>Z|UTC|[+-]\d{1,2}(?::?\d{2}(?::?\d{2})?)?)?"
_CLOCK_PATTERN = re.compile(_CLOCK)
_TIMETZ_PATTERN = re.compile(_CLOCK + _ZONE, re.IGNORECASE)
_TIMESTAMP_PATTERN = re.compile(rf"{_DATE}(?:[ T]{_CLOCK})?{_ZONE}", re.IGNORECASE)
_ZONE_PATTERN = re.compile(r"([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?")
_INTERVAL_PATTERN = re.compile(
    r"\s*(?:(?P<sign>[+-]?)(?P<hours>\d+):(?P<minutes>\d{2}):(?P<seconds>\d{2})(?:\.(?P<fraction>\d{1,6}))?"
    r"|(?P<number>[+-]?\d+)\s+(?P<unit>[a-z]+?)s?(?=\s|$))",
    re.IGNORECASE,
)
# Months, days and microseconds of each unit: what DuckDB, PostgreSQL and the extension's literals use.
_INTERVAL_UNITS: Mapping[str, tuple[int, int, int]] = {
    "millennium": (12000, 0, 0),
    "century": (1200, 0, 0),
    "decade": (120, 0, 0),
    "year": (12, 0, 0),
    "month": (1, 0, 0),
    "mon": (1, 0, 0),
    "week": (0, 7, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, 3600 * 10**6),
    "minute": (0, 0, 60 * 10**6),
    "second": (0, 0, 10**6),
    "millisecond": (0, 0, 10**3),
    "microsecond": (0, 0, 1),
}


# ------------------------------------------------------------------------------------------ to text


def date_to_text(array: pa.Array) -> pa.Array:
    return _formatted(array, pa.int32(), (_FIRST_DAY, _LAST_DAY), lambda a: a.cast(pa.string()), format_date)


def is_usual_timestamp(array: pa.Array) -> bool:
    """Tell whether all timestamps are in years that Arrow writes as DuckDB does."""
    return _all_within(array.view(pa.int64()), usual_ticks(_TICKS[array.type.unit]))


def usual_ticks(ticks: int) -> tuple[int, int]:
    """Return the first and the last tick, so many a second, of the years that Arrow writes as DuckDB does."""
    first = max(_FIRST_DAY * _DAY_SECONDS * ticks, -INFINITE_TICKS + 1)
    return first, min((_LAST_DAY + 1) * _DAY_SECONDS * ticks - 1, INFINITE_TICKS - 1)


def timestamp_to_text(array: pa.Array, suffix: str = "") -> pa.Array:
    """Format timestamps of any unit; `suffix` is `+00` for those with a time zone, whose ticks are UTC."""
    unit = array.type.unit
    ticks = _TICKS[unit]

    def fast(values: pa.Array) -> pa.Array:
        text = _trim_fraction(values.view(pa.timestamp(unit)).cast(pa.string()), unit)
        return concatenated(text, suffix) if suffix else text

    return _formatted(array, pa.int64(), usual_ticks(ticks), fast, lambda v: format_timestamp(v, ticks, suffix))


def time_to_text(array: pa.Array) -> pa.Array:
    unit = array.type.unit
    ticks = _TICKS[unit]
    return _formatted(
        array,
        pa.int64(),
        (0, _DAY_SECONDS * ticks - 1),
        lambda a: _trim_fraction(a.cast(pa.string()), unit),
        lambda v: format_time(v, ticks),
    )


def interval_to_text(array: pa.Array) -> pa.Array:
    return pa.array([None if v is None else format_interval(*v) for v in array.to_pylist()], pa.string())


def _formatted(
    array: pa.Array,
    raw: pa.DataType,
    bounds: tuple[int, int],
    fast: Callable[[pa.Array], pa.Array],
    slow: Callable[[int], str],
) -> pa.Array:
    """Format what lies in `bounds` with `fast`, the few other values with `slow`."""
    numbers = array.view(raw)
    if _all_within(numbers, bounds):
        return fast(array)
    usual = pc.and_(pc.greater_equal(numbers, bounds[0]), pc.less_equal(numbers, bounds[1]))
    unusual = pc.fill_null(pc.invert(usual), False)  # noqa: FBT003 # the value to fill with
    texts = pa.array([slow(v) for v in numbers.filter(unusual).to_pylist()], pa.string())
    return pc.replace_with_mask(fast(pc.if_else(usual, array, pa.scalar(None, array.type))), unusual, texts)


def _all_within(numbers: pa.Array, bounds: tuple[int, int]) -> bool:
    if len(numbers) == numbers.null_count:
        return True
    if numbers.null_count == 0:  # numpy is several times faster here for few rows
        values = numbers.to_numpy()
        return bool(bounds[0] <= values.min() and values.max() <= bounds[1])
    extremes = pc.min_max(numbers)
    return bool(bounds[0] <= extremes["min"].as_py() and extremes["max"].as_py() <= bounds[1])


_ZEROS, _POINT = pc.TrimOptions("0"), pc.TrimOptions(".")  # made once: making them takes as long as trimming ten texts


def _trim_fraction(text: pa.Array, unit: str) -> pa.Array:
    if unit == "s":
        return text
    return pc.call_function("ascii_rtrim", [pc.call_function("ascii_rtrim", [text], _ZEROS)], _POINT)


@lru_cache(maxsize=4096)  # the rows of one write have few days
def format_date(days: int) -> str:
    """Format days since 1970-01-01, as DuckDB does."""
    if abs(days) == INFINITE_DAYS:
        return "infinity" if days > 0 else "-infinity"
    year, month, day = _civil(days)
    return f"{year:04}-{month:02}-{day:02}" if year > 0 else f"{1 - year:04}-{month:02}-{day:02} (BC)"


def format_timestamp(value: int, ticks: int, suffix: str) -> str:
    """Format ticks since 1970-01-01; infinity has no offset."""
    if abs(value) == INFINITE_TICKS:
        return "infinity" if value > 0 else "-infinity"
    seconds, fraction = divmod(value, ticks)
    text = _format_second(seconds)
    return f"{text}.{str(fraction + ticks)[1:]}".rstrip("0") + suffix if fraction else text + suffix


@lru_cache(maxsize=4096)  # the rows of one write have few seconds
def _format_second(seconds: int) -> str:
    days, rest = divmod(seconds, _DAY_SECONDS)
    return f"{format_date(days)} {format_time(rest, 1)}"


def format_interval(months: int, days: int, nanoseconds: int) -> str:
    """Format an interval; what is finer than a microsecond is the caller's to refuse."""
    years, months = _split_toward_zero(months, 12)
    parts = [_counted(years, "year"), _counted(months, "month"), _counted(days, "day")]
    microseconds = _split_toward_zero(nanoseconds, 1000)[0]
    if microseconds or not any(parts):
        parts.append(("-" if microseconds < 0 else "") + format_time(abs(microseconds), 10**6))
    return " ".join(part for part in parts if part)


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if abs(number) == 1 else 's'}" if number else ""


def _split_toward_zero(value: int, by: int) -> tuple[int, int]:
    sign = -1 if value < 0 else 1
    quotient, rest = divmod(abs(value), by)
    return sign * quotient, sign * rest


def format_time(value: int, ticks: int) -> str:
    """Format ticks since midnight, or of an interval, which may be longer than a day."""
    seconds, fraction = divmod(value, ticks)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{str(fraction + ticks)[1:]}".rstrip("0") if fraction else text


def _civil(days: int) -> tuple[int, int, int]:
    """Return (year, month, day) of the proleptic Gregorian calendar; year 0 is 1 BC.

    A 400-year era has 146097 days; counting years from March puts the leap day last.
    """
    era, day_of_era = divmod(days + 719468, 146097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def _days(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01: the inverse of `_civil`."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468


# ---------------------------------------------------------------------------------------- from text
# Each parser of one text raises ValueError when it is none.


def date_from_text(texts: pa.Array) -> pa.Array:
    return _parsed(texts, pa.date32(), pa.int32(), parse_date)


def timestamp_from_text(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Parse timestamps of any unit, with or without time zone; a missing offset is UTC."""
    ticks = _TICKS[type_.unit]
    return _parsed(texts, type_, pa.int64(), lambda text: parse_timestamp(text, ticks))


def time_from_text(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    ticks = _TICKS[type_.unit]
    try:  # Arrow parses timestamps, but no times
        moments = concatenated("1970-01-01 ", texts).cast(pa.timestamp(type_.unit))
    except pa.ArrowInvalid:
        moments = pa.array([None if t is None else parse_time(t, ticks) for t in texts.to_pylist()], pa.int64())
    return moments.view(type_)


def interval_from_text(texts: pa.Array) -> pa.Array:
    values = [None if t is None else pa.MonthDayNano(parse_interval(t)) for t in texts.to_pylist()]
    return pa.array(values, pa.month_day_nano_interval())


def _parsed(texts: pa.Array, type_: pa.DataType, raw: pa.DataType, slow: Callable[[str], int]) -> pa.Array:
    try:
        return texts.cast(type_)
    except pa.ArrowInvalid:  # one row is unusual: all go the slow way, which reads the usual ones too
        return pa.array([None if t is None else slow(t) for t in texts.to_pylist()], raw).view(type_)


def parse_date(text: str) -> int:
    """Parse a date, or the date of a timestamp, into days since 1970-01-01."""
    text = text.strip()
    if text.lower() in ("infinity", "-infinity"):
        return -INFINITE_DAYS if text.startswith("-") else INFINITE_DAYS
    return _date_of(_matched(_TIMESTAMP_PATTERN, text))


def parse_timestamp(text: str, ticks: int) -> int:
    """Parse a timestamp into ticks since 1970-01-01 UTC."""
    text = text.strip()
    if text.lower() in ("infinity", "-infinity"):
        return -INFINITE_TICKS if text.startswith("-") else INFINITE_TICKS
    match = _matched(_TIMESTAMP_PATTERN, text)
    clock = _clock_of(match, ticks) if match["hour"] is not None else 0
    return (_date_of(match) * _DAY_SECONDS - _zone_seconds(match["zone"])) * ticks + clock


def parse_time(text: str, ticks: int) -> int:
    """Parse a time of day, `24:00:00` included, into ticks since midnight."""
    return _clock_of(_matched(_CLOCK_PATTERN, text.strip()), ticks)


def parse_timetz(text: str) -> tuple[int, int]:
    """Parse a time with an offset into microseconds since local midnight and the offset in seconds east."""
    match = _matched(_TIMETZ_PATTERN, text.strip())
    return _clock_of(match, 10**6), _zone_seconds(match["zone"])


def parse_interval(text: str) -> tuple[int, int, int]:
    """Parse an interval into months, days and nanoseconds: DuckDB's and PostgreSQL's output, and its units in words."""
    months = days = microseconds = position = 0
    while position < len(text.rstrip()):
        match = _INTERVAL_PATTERN.match(text, position)
        if match is None:
            raise ValueError(text)
        if match["unit"] is None:
            microseconds += _interval_clock(match)
        else:
            unit = _INTERVAL_UNITS.get(_singular(match["unit"].lower()))
            if unit is None:
                raise ValueError(text)
            number = int(match["number"])
            months, days, microseconds = (
                months + number * unit[0],
                days + number * unit[1],
                microseconds + number * unit[2],
            )
        position = match.end()
    if position == 0:
        raise ValueError(text)
    return months, days, microseconds * 1000


def _singular(unit: str) -> str:
    return {"centurie": "century", "millennia": "millennium", "milliseconds": "millisecond"}.get(unit, unit)


def _interval_clock(match: re.Match[str]) -> int:
    seconds = int(match["hours"]) * 3600 + int(match["minutes"]) * 60 + int(match["seconds"])
    microseconds = seconds * 10**6 + int((match["fraction"] or "").ljust(6, "0"))
    return -microseconds if match["sign"] == "-" else microseconds


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match


def _date_of(match: re.Match[str]) -> int:
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    days = _days(1 - year if match["bc"] else year, month, day)
    if _civil(days)[1:] != (month, day):  # such as February 30
        raise ValueError(match.string)
    return days


def _clock_of(match: re.Match[str], ticks: int) -> int:
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    digits = len(str(ticks)) - 1
    fraction = (match["fraction"] or "").ljust(digits, "0")[:digits]
    value = (hour * 3600 + minute * 60 + second) * ticks + int(fraction or 0)
    if minute > 59 or second > 59 or value > _DAY_SECONDS * ticks:
        raise ValueError(match.string)
    return value


def _zone_seconds(zone: str | None) -> int:
    match = _ZONE_PATTERN.fullmatch(zone) if zone else None
    if match is None:
        return 0
    seconds = int(match[2]) * 3600 + int(match[3] or 0) * 60 + int(match[4] or 0)
    return -seconds if match[1] == "-" else seconds
