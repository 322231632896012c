"""Tables of inlined rows of older columns stay, empty, as long as a session of DuckDB may know them."""

import logging
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from ducklake_core import Lake
from ducklake_core.catalog.inlined_cleanup import drop_superseded
from ducklake_core.clock import utc_now
from ducklake_core.errors import InvalidInput
from tests.fixtures.catalogs import Catalog, PostgresCatalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle

OLD, NEW = "ducklake_inlined_data_1_1", "ducklake_inlined_data_1_2"
HOUR = timedelta(hours=1)


@pytest.fixture
def lake(catalog: Catalog) -> Lake:
    """Give a lake whose table has inlined rows of two sets of columns."""
    lake = Lake.create(catalog.url, catalog.data_path)
    lake.create_table("t", {"i": "int64"})
    lake.append("t", {"i": [1, 2, 3]})
    lake.add_column("t", "x", "int64", 7)
    lake.append("t", {"i": [4], "x": [8]})
    return lake


def registered(catalog: Catalog) -> list[str]:
    return [name for (name,) in catalog.query("SELECT table_name FROM ducklake_inlined_data_tables ORDER BY 1")]


def test_session_of_duckdb_that_is_open_goes_on_after_our_flush(catalog: Catalog, lake: Lake, oracle: Oracle) -> None:
    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*) FROM t") == [(4,)]

    with lake:
        result = lake.flush_inlined("t")

    assert result.dropped_tables == ()
    assert oracle.query("SELECT i, x FROM t ORDER BY i") == [(1, 7), (2, 7), (3, 7), (4, 8)]
    oracle.execute("INSERT INTO t VALUES (5, 9)")
    oracle.execute("DELETE FROM t WHERE i = 1")
    oracle.execute("CALL ducklake_flush_inlined_data('lake')")
    assert oracle.query("SELECT i FROM t ORDER BY i") == [(2,), (3,), (4,), (5,)]
    check_lake(catalog)


def test_session_that_begins_after_the_flush_does_not_mind_that_they_go(
    catalog: Catalog, lake: Lake, oracle: Oracle
) -> None:
    with lake:
        lake.flush_inlined("t")
        oracle.attach(catalog.attach)
        assert oracle.query("SELECT count(*) FROM t") == [(4,)]

        assert lake.flush_inlined("t", keep_superseded=0).dropped_tables == (OLD,)

    assert oracle.query("SELECT count(*) FROM t") == [(4,)]


def test_they_are_forgotten_at_once_and_dropped_when_their_time_is_over(catalog: Catalog, lake: Lake) -> None:
    with lake:
        lake.flush_inlined("t")
        assert registered(catalog) == [NEW]
        assert OLD in catalog.columns()
        flushed = lake.snapshots()[-1].snapshot_time
        lake.append("t", {"i": [5], "x": [9]})
        lake.flush_inlined("t")  # which empties only the newest

        assert drop_superseded(lake.database, HOUR, flushed + HOUR - timedelta(seconds=1)) == ()
        assert OLD in catalog.columns()
        assert drop_superseded(lake.database, HOUR, flushed + HOUR) == (OLD,)
        assert OLD not in catalog.columns()
        assert NEW in catalog.columns()
        assert lake.table("t").count() == 5


def test_time_of_a_flush_that_has_expired_is_that_of_the_oldest_snapshot(
    catalog: Catalog, lake: Lake, oracle: Oracle
) -> None:
    with lake:
        lake.flush_inlined("t")
        lake.append("t", {"i": [5], "x": [9]})
        oracle.attach(catalog.attach)
        oracle.execute(
            f"CALL ducklake_expire_snapshots('lake', older_than => '{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f+00}')"
        )
        oracle.detach()
        [last] = lake.snapshots()

        assert drop_superseded(lake.database, HOUR, last.snapshot_time + HOUR - timedelta(seconds=1)) == ()
        assert drop_superseded(lake.database, HOUR, last.snapshot_time + HOUR) == (OLD,)


def test_table_that_never_had_rows_has_its_grace_from_when_it_was_superseded(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64"})
        lake.add_column("t", "x", "int64", 7)
        superseded = lake.snapshots()[-1].snapshot_time
        assert registered(catalog) == [OLD, NEW]
        drop_superseded(lake.database, HOUR, superseded)  # the first one only forgets it

        assert registered(catalog) == [NEW]
        assert drop_superseded(lake.database, HOUR, superseded + HOUR - timedelta(microseconds=1)) == ()
        assert drop_superseded(lake.database, HOUR, superseded + HOUR) == (OLD,)


def test_table_with_rows_is_left_alone(catalog: Catalog, lake: Lake) -> None:
    with lake:
        assert drop_superseded(lake.database, timedelta(0), utc_now()) == ()
        assert drop_superseded(lake.database, HOUR, utc_now()) == ()

        assert registered(catalog) == [OLD, NEW]
        assert lake.table("t").count() == 4


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_flush_by_a_role_that_may_not_drop_says_so_and_counts(
    catalog: PostgresCatalog, lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    lake.close()
    with psycopg.connect(catalog.database.conninfo, autocommit=True) as connection:
        connection.execute("CREATE ROLE writes LOGIN")
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO writes")
        try:
            with Lake.open(catalog.url.replace("lake@", "writes@")) as writer:
                result = writer.flush_inlined("t", keep_superseded=0)
                read = writer.table("t").count()
        finally:
            connection.execute("DROP OWNED BY writes")
            connection.execute("DROP ROLE writes")

    assert (result.rows, read) == (4, 4)
    assert [r.message.split()[0] for r in caplog.records if r.levelno >= logging.WARNING] == [
        "superseded_tables_not_dropped"
    ]


def test_what_is_no_time_is_refused(lake: Lake) -> None:
    with lake, pytest.raises(InvalidInput, match="keep_superseded is 'soon', but must be a number of seconds"):
        lake.flush_inlined("t", keep_superseded="soon")
