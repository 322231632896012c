"""The simulated fleet."""

import pyarrow as pa

from ducklake_streaming.vehicles import SCHEMA, Fleet


def test_readings_have_the_announced_schema() -> None:
    assert Fleet().send(3).schema == SCHEMA


def test_same_seed_sends_the_same_readings() -> None:
    assert Fleet(seed=1).send(10) == Fleet(seed=1).send(10)


def test_readings_go_on_where_they_ended() -> None:
    fleet = Fleet()

    readings = pa.concat_tables([fleet.send(5), fleet.send(5)])

    times = readings.column("ts").to_pylist()
    assert times == sorted(set(times))
