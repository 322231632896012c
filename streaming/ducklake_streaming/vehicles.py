"""Simulated vehicles whose sensors send readings: the source of the demonstration. No Spark, no I/O, no real clock."""

import datetime as dt
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("vehicle", pa.string(), nullable=False),
        pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("speed_kmh", pa.float64()),
        pa.field("battery_percent", pa.float64()),
        pa.field("position", pa.struct([("lat", pa.float64()), ("lon", pa.float64())])),
    ]
)

MIDDAY = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
BETWEEN_READINGS = dt.timedelta(milliseconds=250)


@dataclass(slots=True)
class Fleet:
    """Some vehicles and the time they have reached; `seed` fixes everything they will ever send."""

    vehicles: int = 12
    seed: int = 7
    readings_sent: int = 0

    def send(self, rows: int) -> pa.Table:
        """Return the next readings of the fleet, in order of time."""
        random = np.random.default_rng((self.seed, self.readings_sent))
        numbers = np.arange(self.readings_sent, self.readings_sent + rows)
        self.readings_sent += rows
        columns = [
            pa.array([f"vehicle-{number:02}" for number in random.integers(self.vehicles, size=rows)]),
            pa.array([MIDDAY + BETWEEN_READINGS * int(number) for number in numbers], SCHEMA.field("ts").type),
            pa.array(random.normal(70, 20, rows).clip(0, 180).round(1)),
            pa.array((100 - numbers / 1000 % 90 - random.random(rows)).round(1)),
            _positions(random, rows),
        ]
        return pa.table(columns, schema=SCHEMA)


def _positions(random: np.random.Generator, rows: int) -> pa.StructArray:
    latitudes, longitudes = random.normal(52.52, 0.05, rows).round(5), random.normal(13.4, 0.08, rows).round(5)
    return pa.StructArray.from_arrays([pa.array(latitudes), pa.array(longitudes)], names=["lat", "lon"])
