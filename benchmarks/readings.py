"""Readings of vehicles in 23 columns of mixed types: what the benchmarks append. No two calls give the same values."""

import datetime as dt
from decimal import Decimal
from itertools import count

import numpy as np
import pyarrow as pa

_TIME = pa.timestamp("us", tz="UTC")

SCHEMA = pa.schema(
    [
        pa.field("reading", pa.int64(), nullable=False),
        pa.field("vehicle", pa.string(), nullable=False),
        pa.field("measured_at", _TIME, nullable=False),
        ("received_at", _TIME),
        ("trip", pa.int64()),
        ("odometer_m", pa.int64()),
        ("gear", pa.int32()),
        ("rpm", pa.int32()),
        ("passengers", pa.int32()),
        ("speed_kmh", pa.float64()),
        ("battery_percent", pa.float64()),
        ("motor_celsius", pa.float64()),
        ("cabin_celsius", pa.float64()),
        ("tyre_bar", pa.float32()),
        ("charging", pa.bool_()),
        ("locked", pa.bool_()),
        ("driver", pa.string()),
        ("firmware", pa.string()),
        ("note", pa.string()),
        ("service_day", pa.date32()),
        ("fare", pa.decimal128(9, 2)),
        ("position", pa.struct([("lat", pa.float64()), ("lon", pa.float64())])),
        ("warnings", pa.list_(pa.string())),
    ]
)

_START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_calls = count()


def make_readings(rows: int) -> pa.Table:
    """Return the next readings: times and counters go on, measurements vary, some values are null."""
    call = next(_calls)
    random = np.random.default_rng(call)
    numbers = np.arange(rows) + call * 10_000
    times = [_START + dt.timedelta(milliseconds=250 * int(number)) for number in numbers]
    columns = {
        "reading": numbers,
        "vehicle": [f"vehicle-{number:03}" for number in random.integers(500, size=rows)],
        "measured_at": times,
        "received_at": [time + dt.timedelta(microseconds=41_307) for time in times],
        "trip": numbers // 100,
        "odometer_m": 1_000_000 + numbers * 7,
        "gear": random.integers(6, size=rows),
        "rpm": random.integers(900, 7000, rows),
        "passengers": _sometimes(random, random.integers(5, size=rows).tolist()),
        "speed_kmh": random.normal(70, 20, rows),
        "battery_percent": random.uniform(5, 100, rows),
        "motor_celsius": random.normal(80, 5, rows),
        "cabin_celsius": _sometimes(random, random.normal(21, 1, rows).tolist()),
        "tyre_bar": random.normal(2.4, 0.1, rows),
        "charging": random.random(rows) < 0.1,
        "locked": random.random(rows) < 0.5,
        "driver": [f"Ωmega {number}" for number in random.integers(90, size=rows)],
        "firmware": [f"4.{number}.1" for number in random.integers(12, size=rows)],
        "note": _sometimes(random, ["nothing to report"] * rows, share=0.1),
        "service_day": [dt.date(2026, 3, 1) + dt.timedelta(int(day)) for day in random.integers(200, size=rows)],
        "fare": [Decimal(int(cents)).scaleb(-2) for cents in random.integers(0, 9999, rows)],
        "position": [{"lat": lat, "lon": lon} for lat, lon in random.normal((52.5, 13.4), 0.05, (rows, 2)).tolist()],
        "warnings": [["door", "belt"][:number] for number in random.integers(3, size=rows)],
    }
    return pa.table([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def _sometimes(random: np.random.Generator, values: list[object], share: float = 0.9) -> list[object]:
    return [value if chosen < share else None for value, chosen in zip(values, random.random(len(values)), strict=True)]
