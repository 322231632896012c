"""Values of the catalog tables as Python has them."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, select
from sqlalchemy.exc import StatementError

from ducklake_core.spec.tables import PLAIN_VALUES, catalog_tables, format_time, parse_time


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_survives_its_text(time: datetime) -> None:
    assert parse_time(format_time(time)) == time


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (datetime(2026, 11, 16, 1, 38, 20, 829360, tzinfo=UTC), "2026-11-16 01:38:20.82936+00"),
        (datetime(2026, 11, 16, 1, 38, 20, tzinfo=UTC), "2026-11-16 01:38:20+00"),
        (datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2))), "2025-12-31 23:00:00+00"),
        (datetime(987, 1, 1, tzinfo=UTC), "0987-01-01 00:00:00+00"),
    ],
)
def test_a_time_is_written_as_the_reference_does(time: datetime, text: str) -> None:
    assert format_time(time) == text


@pytest.mark.parametrize(
    "text", ["2026-11-16 01:38:20.5", "2026-11-16 03:38:20.5+02", "2026-11-16 07:08:20.500000+05:30"]
)
def test_times_of_other_writers_are_read_in_utc(text: str) -> None:
    time = parse_time(text)

    assert time == datetime(2026, 11, 16, 1, 38, 20, 500000, tzinfo=UTC)
    assert time.tzinfo is UTC


def test_sqlite_stores_what_the_reference_stores_and_returns_python_values() -> None:
    tables = catalog_tables(None, PLAIN_VALUES)
    engine = create_engine("sqlite://")
    tables.metadata.create_all(engine)
    uuid = UUID("0198C0DE-0000-7000-8000-00000000ABCD")
    time = datetime(2026, 1, 2, 3, 4, 5, 100, tzinfo=UTC)

    with engine.begin() as connection:
        connection.execute(
            tables.ducklake_schema.insert(), {"schema_id": 1, "schema_uuid": uuid, "path_is_relative": True}
        )
        connection.execute(tables.ducklake_snapshot.insert(), {"snapshot_id": 1, "snapshot_time": time})
        stored = connection.exec_driver_sql("SELECT schema_uuid, path_is_relative FROM ducklake_schema").one()
        stored_time = connection.exec_driver_sql("SELECT snapshot_time FROM ducklake_snapshot").scalar()
        schema = connection.execute(select(tables.ducklake_schema)).one()
        snapshot = connection.execute(select(tables.ducklake_snapshot)).one()

    assert stored == ("0198c0de-0000-7000-8000-00000000abcd", 1)
    assert stored_time == "2026-01-02 03:04:05.0001+00"
    assert (schema.schema_uuid, schema.path_is_relative, schema.end_snapshot) == (uuid, True, None)
    assert snapshot.snapshot_time == time
    engine.dispose()


def test_a_time_without_a_zone_is_refused() -> None:
    tables = catalog_tables(None, PLAIN_VALUES)
    engine = create_engine("sqlite://")
    tables.metadata.create_all(engine)

    with engine.begin() as connection, pytest.raises(StatementError, match="has no time zone"):
        connection.execute(tables.ducklake_snapshot.insert(), {"snapshot_time": datetime(2026, 1, 1)})  # noqa: DTZ001 # the point
    engine.dispose()
