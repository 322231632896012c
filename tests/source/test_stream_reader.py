"""What a stream of changes reads, and from where to where; Spark's part is played by hand."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from sqlalchemy import update

from ducklake_core.catalog.session import Statement
from ducklake_core.errors import (
    CatalogForbidden,
    InvalidInput,
    ObjectNotFound,
    OffsetMismatch,
    SnapshotsExpired,
    UnreadableFile,
)
from ducklake_sources.data_source import DuckLakeDataSource
from ducklake_sources.spark_versions import HAS_LIMITS
from tests.fixtures.oracle import Oracle
from tests.fixtures.pulls import FEED, Pull, Table, events


def test_feed_begins_with_the_table_and_goes_on_without_a_seam(table: Table) -> None:
    table.add(1, 2, 3)
    table.add(*range(10, 20))
    table.lake.update("t", {"s": "b"}, "i = 2 OR i = 12")
    pull = table.pull(**FEED)

    first = pull.step()
    table.lake.update("t", {"s": "c"}, "i = 2 OR i = 13")
    table.lake.delete("t", "i = 1")
    rest = pull.all()

    assert first is not None
    assert {(row["i"], row["s"]) for row in first.to_pylist()} == {
        *((i, "a") for i in (1, 3, 10, 11, *range(13, 20))),
        (2, "b"),
        (12, "b"),
    }
    assert set(first.column("_change_type").to_pylist()) == {"insert"}
    assert set(first.column("_commit_version").to_pylist()) == {4}
    assert events(rest, "i", "s") == [
        (5, "update_postimage", 1, 2, "c"),
        (5, "update_postimage", 6, 13, "c"),
        (5, "update_preimage", 1, 2, "b"),
        (5, "update_preimage", 6, 13, "a"),
        (6, "delete", 0, 1, "a"),
    ]
    assert pull.step() is None


def test_same_offsets_give_the_same_rows_after_flush_merge_and_rewrite(table: Table, oracle: Oracle) -> None:
    table.add(1, 2, 3)
    pull = table.pull(**FEED, startingVersion="earliest")
    table.add(*range(10, 20))
    table.lake.update("t", {"s": "b"}, "i = 2 OR i = 12")
    table.lake.delete("t", "i > 16")
    start = pull.offset
    before = pull.all()
    end = pull.offset

    table.lake.flush_inlined("t")
    oracle.attach(table.catalog.attach)
    after_flush = pull.read(start, end)
    oracle.execute("CALL ducklake_rewrite_data_files('lake', 't', delete_threshold => 0)")
    after_rewrite = pull.read(start, end)
    oracle.execute("CALL ducklake_merge_adjacent_files('lake')")

    assert events(pull.read(start, end), "i", "s") == events(before, "i", "s") != []
    assert events(after_flush, "i", "s") == events(after_rewrite, "i", "s") == events(before, "i", "s")
    assert pull.all().num_rows == 0, "maintenance emits nothing"


@pytest.mark.parametrize(
    ("options", "versions"),
    [
        ({"maxVersionsPerTrigger": "2"}, [{2, 3}, {4, 5}, {6}]),
        ({"maxRowsPerTrigger": "11"}, [{2}, {3, 4}, {5, 6}]),
        ({"maxRowsPerTrigger": "1"}, [{2}, {3}, {4}, {5}, {6}]),
        ({"maxBytesPerTrigger": "1"}, [{2, 3}, {4}, {5, 6}]),
    ],
)
def test_limits_admit_whole_snapshots_and_one_at_least(
    table: Table, options: dict[str, str], versions: list[set[int]]
) -> None:
    table.add(1, 2, 3)  # snapshot 2
    table.add(*range(10, 20))  # 3: a file
    table.add(4)  # 4
    table.add(*range(20, 29))  # 5: a file
    table.lake.delete("t", "i = 1")  # 6
    pull = table.pull(startingVersion="1", **FEED, **options)

    while pull.step() is not None:
        pass

    found = [set(rows.column("_commit_version").to_pylist()) for rows in pull.batches]
    if "maxBytesPerTrigger" in options:  # inlined rows have no bytes of files: only that it is cut counts
        assert len(found) > 1
        assert set().union(*found) == {2, 3, 4, 5, 6}
    else:
        assert found == versions


@pytest.mark.skipif(not HAS_LIMITS, reason="Spark has limits from 4.2 on")
def test_limits_see_deletes_from_a_file_that_had_deletes_before(table: Table) -> None:
    table.add(*range(10_000))  # 2
    for most in (100, 4000, 8000):  # 3, 4, 5: one delete file in the end, whose row begins with snapshot 3
        table.lake.delete("t", f"i < {most}")
    pull = table.pull(startingVersion="4", **FEED, maxRowsPerTrigger="1000")

    while pull.step() is not None:
        pass

    assert [set(rows.column("_commit_version").to_pylist()) for rows in pull.batches] == [{4}, {5}]


@pytest.mark.skipif(not HAS_LIMITS, reason="Spark has limits from 4.2 on")
def test_limits_are_kept_by_batches_that_end_amid_the_snapshots_of_a_delete_file(table: Table) -> None:
    table.add(*range(10_000))  # 2
    table.add(*range(10_000, 10_400))  # 3
    table.lake.delete("t", "i < 3900")  # 4
    table.lake.delete("t", "i < 4000")  # 5
    pull = table.pull(startingVersion="3", **FEED, maxRowsPerTrigger="2500")

    while pull.step() is not None:
        pass

    assert [set(rows.column("_commit_version").to_pylist()) for rows in pull.batches] == [{3}, {4}, {5}]


def test_trigger_that_wants_everything_overrules_the_limits(table: Table) -> None:
    for number in range(5):
        table.add(number)
    pull = table.pull(startingVersion="earliest", maxVersionsPerTrigger="1", **FEED)

    rows = pull.everything()

    assert rows is not None
    assert rows.num_rows == 5


def test_available_now_takes_what_was_there_at_its_start(table: Table) -> None:
    table.add(1)
    pull = table.pull(maxVersionsPerTrigger="1", startingVersion="earliest", **FEED)
    table.add(2)
    pull.reader.prepareForTriggerAvailableNow()
    table.add(3)

    rows = pull.all()

    assert sorted(rows.column("i").to_pylist()) == [1, 2]


def test_fast_writer_does_not_starve_the_reader(table: Table) -> None:
    table.add(0)
    pull = table.pull(maxVersionsPerTrigger="3", startingVersion="earliest", **FEED)
    read: list[int] = []

    for number in range(1, 12):  # two commits for each batch that is read: it never catches up, and never stands still
        table.add(2 * number - 1)
        table.add(2 * number)
        rows = pull.step()
        assert rows is not None
        read += rows.column("i").to_pylist()

    assert sorted(read) == list(range(len(read)))
    assert len(read) >= 20


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingVersion": "3"}, [2, 3]),
        ({"startingVersion": "earliest"}, [1, 2, 3]),
        ({"startingVersion": "latest"}, []),
        ({"startingVersion": "5"}, []),
        ({"startingVersion": "2", "endingVersion": "3"}, [1, 2]),
    ],
)
def test_feed_begins_and_ends_where_it_is_told(table: Table, options: dict[str, str], expected: list[int]) -> None:
    for number in (1, 2, 3):
        table.add(number)

    rows = table.pull(**FEED, **options).all()

    assert sorted(rows.column("i").to_pylist() if rows.num_columns else []) == expected


def test_feed_begins_at_a_time(table: Table) -> None:
    for number in (1, 2, 3):
        table.add(number)
    time = next(s.snapshot_time for s in table.lake.snapshots() if s.snapshot_id == 3).isoformat()

    rows = table.pull(**FEED, startingTimestamp=time, endingTimestamp=time).all()

    assert rows.column("i").to_pylist() == [2]
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    with pytest.raises(ObjectNotFound, match="no snapshot at or after"):
        table.pull(**FEED, startingTimestamp=later)


def test_version_that_is_not_there_yet_is_refused(table: Table) -> None:
    with pytest.raises(InvalidInput, match="startingVersion 99 is not there yet: the newest snapshot is 1"):
        table.pull(**FEED, startingVersion="99")


def test_commits_to_other_tables_make_no_batches_but_move_the_offset_in_the_end(table: Table) -> None:
    table.lake.create_table("other", {"i": "int64"})
    pull = table.pull(**FEED, startingVersion="latest")
    start = pull.offset["snapshot_id"]

    for _ in range(10):
        table.lake.append("other", pa.table({"i": [1]}))

    assert pull.step() is None
    assert pull.reader.reportLatestOffset() is not None
    table.clock.advance(minutes=5)
    table.lake.append("other", pa.table({"i": [1]}))
    assert pull.step() is not None
    assert pull.offset["snapshot_id"] == start + 11
    table.add(7)
    assert pull.all().column("i").to_pylist() == [7]


# ------------------------------------------------------------------------------------- what is chosen


def test_change_types_and_columns_are_chosen(table: Table) -> None:
    table.add(1, 2)
    table.lake.update("t", {"s": "b"}, "i = 1")
    table.lake.delete("t", "i = 2")

    options = {"changeTypes": "update_postimage, delete", "columns": "s", "startingVersion": "earliest"}
    rows = table.pull(**FEED, **options).all()

    assert rows.column_names == ["s", "_change_type", "_commit_version", "_commit_timestamp", "_rowid"]
    assert events(rows, "s") == [(3, "update_postimage", 0, "b"), (4, "delete", 1, "a")]


def test_net_changes_have_one_row_for_each_row_id(table: Table) -> None:
    table.add(1, 2, 3)
    pull = table.pull(**FEED, netChanges="true", startingVersion="3")
    table.lake.update("t", {"s": "b"}, "i = 1")
    table.lake.update("t", {"s": "c"}, "i = 1")
    table.lake.delete("t", "i = 2")
    table.add(4)
    table.add(5)
    table.lake.update("t", {"s": "z"}, "i = 5")
    table.lake.delete("t", "i = 4")

    rows = pull.all()

    assert sorted((r["i"], r["s"], r["_change_type"]) for r in rows.to_pylist()) == [
        (1, "c", "update_postimage"),
        (2, "a", "delete"),
        (5, "z", "insert"),
    ]


# ------------------------------------------------------------------------------------ offsets that are wrong


@pytest.mark.parametrize("since", ["latest", "earliest"])
def test_first_batch_that_is_planned_again_begins_at_the_same_snapshot(table: Table, since: str) -> None:
    table.add(1)
    first = table.pull(**FEED, startingVersion=since)
    begin = first.offset
    table.add(2)
    rows = first.step()
    end = first.offset

    again = Pull.without_pin(catalog=table.catalog.url, table="t", startingVersion=since, **FEED)
    try:
        assert again.offset.get("pending") or not HAS_LIMITS
        assert again.read(again.offset, begin).num_rows == 0
        assert rows is not None
        assert events(again.read(begin, end)) == events(rows)
    finally:
        again.close()


def test_table_created_anew_under_its_name_is_another(table: Table) -> None:
    table.add(1)
    pull = table.pull(**FEED)
    pull.all()
    table.lake.drop_table("t")

    with pytest.raises(OffsetMismatch, match="it was dropped"):
        pull.step()
    table.lake.create_table("t", {"i": "int64", "s": "varchar"})
    with pytest.raises(OffsetMismatch, match="was dropped and created anew"):
        table.pull(pull.offset, **FEED).step()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"snapshot_id": 99}, "up to snapshot 99, but the newest one is 2: the catalog was restored"),
        ({"v": 2}, "it has version 2, and this release reads version 1"),
        ({"snapshot_id": "x"}, "it is not one of a DuckLake table"),
        ({"table_uuid": "01a1e418-ad31-7f0d-b720-58073659b150"}, "another stream's"),
    ],
)
def test_bad_offset_is_refused(table: Table, change: dict[str, object], said: str) -> None:
    table.add(1)
    pull = table.pull(**FEED)
    pull.all()

    with pytest.raises(OffsetMismatch, match=said):
        table.pull({**pull.offset, **change}, **FEED).step()


# ------------------------------------------------------------------------------------------------ gaps


def test_expired_snapshots_are_a_loud_gap_or_an_accepted_loss(table: Table, oracle: Oracle) -> None:
    table.add(1)
    pull = table.pull(**FEED)
    pull.all()
    table.add(2)
    table.lake.delete("t", "i = 1")
    table.add(3)
    table.add(4)
    oracle.attach(table.catalog.attach)
    oracle.execute("CALL ducklake_expire_snapshots('lake', versions => [3, 4])")

    with pytest.raises(SnapshotsExpired, match=r"after snapshot 2 up to 6: snapshots 3 to 4 .*failOnDataLoss=false"):
        pull.step()
    accepting = table.pull(pull.offset, **FEED, failOnDataLoss="false")
    rows = accepting.all()
    assert {3, 4} <= set(rows.column("i").to_pylist())
    assert accepting.offset["lost_snapshots"] == 2


def test_consumed_and_expired_snapshot_is_no_gap(table: Table, oracle: Oracle) -> None:
    table.add(1)
    table.add(2)
    pull = table.pull(**FEED)
    pull.all()
    table.add(3)
    oracle.attach(table.catalog.attach)
    oracle.execute("CALL ducklake_expire_snapshots('lake', versions => [0, 1, 2, 3])")

    assert pull.all().column("i").to_pylist() == [3]
    assert sorted(table.pull(**FEED, startingVersion="earliest").all().column("i").to_pylist()) == [3]


# --------------------------------------------------------------------------------------------- consumers


def test_consumer_is_recorded_with_its_position_and_expiry(table: Table) -> None:
    table.add(1)
    pull = table.pull(**FEED, consumerId="silver", consumerExpiration="2d")
    pull.all()
    table.add(2)
    pull.all()

    [consumer] = table.lake.consumers()

    assert (consumer.name, consumer.snapshot_id) == ("silver", 3)
    assert consumer.expires_at is not None
    assert consumer.expires_at - consumer.updated_at == timedelta(days=2)
    table.lake.create_table("other", {"i": "int64"})
    with pytest.raises(InvalidInput, match="consumer 'silver' reads another table"):
        table.pull(consumerId="silver", startingVersion="latest", table="other")
    assert table.lake.forget_consumer("silver")
    assert table.lake.consumers() == []


def test_idle_consumer_shows_that_it_is_alive(table: Table) -> None:
    pull = table.pull(**FEED, consumerId="silver", startingVersion="latest")
    assert pull.step() is None
    [first] = table.lake.consumers()
    assert pull.step() is None
    assert table.lake.consumers() == [first], "not at every poll"

    table.clock.advance(days=1)
    assert pull.step() is None

    [second] = table.lake.consumers()
    assert second.updated_at > first.updated_at


# ------------------------------------------------------------------------------------------- what goes wrong


def test_missing_file_is_named_with_table_and_snapshots(table: Table) -> None:
    table.add(*range(10))
    [file] = table.lake.table("t").files()
    Path(file.path).unlink()

    with pytest.raises(UnreadableFile, match=rf"table 'main.t' after snapshot .* up to 2: .*{Path(file.path).name}"):
        table.pull(**FEED, startingVersion="earliest").step()


def test_snapshot_that_does_not_say_what_it_did_is_looked_at(table: Table) -> None:
    pull = table.pull(**FEED, startingVersion="latest")
    table.add(1)
    with table.lake.database.write() as session:
        changes = session.tables.ducklake_snapshot_changes
        forget = update(changes).where(changes.c.snapshot_id == 2).values(changes_made=None)
        session.write_and_commit([Statement(forget)])

    assert pull.all().column("i").to_pylist() == [1]


def test_limits_survive_a_flush_that_drops_a_table_of_inlined_rows(table: Table) -> None:
    table.add(1)
    table.lake.add_column("t", "n", "int64")
    pull = table.pull(**FEED, startingVersion="latest", maxRowsPerTrigger="10")
    pull.all()
    table.lake.flush_inlined("t")
    table.lake.append("t", pa.table({"i": [2], "s": ["b"], "n": [1]}))

    assert pull.all().column("i").to_pylist() == [2]


def test_options_of_streams_are_refused_by_batches(table: Table) -> None:
    options = {"catalog": table.catalog.url, "table": "t", "consumerId": "c", "failOnDataLoss": "false"}
    source = DuckLakeDataSource(options)

    with pytest.raises(InvalidInput, match=r"consumerId is for streams.*failOnDataLoss is for streams"):
        source.reader(source.schema())


def test_bad_options_are_told_all_at_once(table: Table) -> None:
    with pytest.raises(InvalidInput) as caught:
        table.pull(startingVersio="1", maxRowsPerTrigger="none", changeTypes="upsert")

    assert "did you mean 'startingVersion'?" in str(caught.value)
    assert "maxRowsPerTrigger is 'none'" in str(caught.value)
    assert "changeTypes" in str(caught.value)


def test_unknown_table_is_told_with_the_nearest(table: Table) -> None:
    with pytest.raises(ObjectNotFound, match="there is no table 'events'"):
        Pull(catalog=table.catalog.url, table="events")


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_user_without_rights_is_told_what_is_missing(table: Table) -> None:
    table.add(1)
    database = table.catalog.database  # type: ignore[union-attr] # PostgreSQL alone
    with psycopg.connect(database.conninfo, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS stranger")
        connection.execute("CREATE ROLE stranger LOGIN")
    url = table.catalog.url.replace("://lake@", "://stranger@")

    with pytest.raises(CatalogForbidden, match=r"may not read catalog .*permission denied.*SELECT"):
        Pull(catalog=url, table="t")

    with psycopg.connect(database.conninfo, autocommit=True) as connection:
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO stranger")
    with pytest.raises(CatalogForbidden, match=r"may not create the ledger in catalog .*GRANT CREATE ON SCHEMA public"):
        table.pull(catalog=url, consumerId="c", startingVersion="latest")
