"""Inlined rows are flushed beside the stream: by number, size, age and deletes, and never at a batch's expense."""

import json
import logging
import random
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from ducklake_core import Epoch, Lake
from ducklake_core.catalog.session import Row, Session
from ducklake_core.errors import CommitConflict, CorruptCatalog
from ducklake_core.model import FlushResult, InlinedState
from ducklake_sinks import FlushPolicy
from ducklake_sinks.epoch import EpochStart
from ducklake_sinks.governor import FlushGovernor, Rests
from ducklake_sinks.options import parse_options
from ducklake_sinks.own_tables import tables_of_stream, told_of
from ducklake_sinks.query import Query
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.waiting import wait_until

NEVER = {"rows": None, "bytes": None, "age": None, "deletes": None}


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("main.events", {"id": "int64"})
        lake.set_option("data_inlining_row_limit", 1000, table="main.events")
        yield lake


def govern(catalog: Catalog, rests: Rests | None = None, **policy: object) -> closing[FlushGovernor]:
    chosen = FlushPolicy(**{**NEVER, **policy})  # type: ignore[arg-type] # each of its own type
    return closing(FlushGovernor(chosen, partial(Lake.open, catalog.url), rests=rests or Rests()))


def append(lake: Lake, governor: FlushGovernor, rows: int) -> None:
    lake.append("main.events", {"id": list(range(rows))})
    governor.note("main.events", rows, 8 * rows)


def inlined(lake: Lake) -> int:
    return lake.inlined_state("main.events").rows


def test_many_rows_are_flushed_and_few_are_not(catalog: Catalog, lake: Lake, oracle: Oracle) -> None:
    with govern(catalog, rows=100) as governor:
        append(lake, governor, 60)
        append(lake, governor, 39)
        wait_until(lambda: governor.checks > 0)
        assert governor.flushes == 0
        append(lake, governor, 1)
        wait_until(lambda: inlined(lake) == 0)
        wait_until(lambda: governor.flushes == 1)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), sum(id) FROM events") == [(100, 60 * 59 // 2 + 39 * 38 // 2)]


def test_rows_that_were_there_before_count(catalog: Catalog, lake: Lake) -> None:
    lake.append("main.events", {"id": list(range(99))})

    with govern(catalog, rows=100) as governor:
        append(lake, governor, 1)
        wait_until(lambda: inlined(lake) == 0)


def test_large_rows_are_flushed(catalog: Catalog, lake: Lake) -> None:
    lake.add_column("main.events", "text", "varchar")

    with govern(catalog, bytes="100kB") as governor:
        noise = random.Random(7).randbytes(100_000).hex()  # noqa: S311 # PostgreSQL must not compress it away
        lake.append("main.events", {"id": [1], "text": [noise]})
        governor.note("main.events", 1, 200_000)
        wait_until(lambda: inlined(lake) == 0)


def test_old_rows_are_flushed_although_no_batch_comes(catalog: Catalog, lake: Lake) -> None:
    with govern(catalog, age="300ms") as governor:
        append(lake, governor, 1)
        wait_until(lambda: inlined(lake) == 0)


def test_deletes_of_others_are_flushed_although_no_batch_comes(catalog: Catalog, lake: Lake, oracle: Oracle) -> None:
    lake.append("main.events", {"id": list(range(2000))})  # a file
    with govern(catalog, Rests(longest=timedelta(milliseconds=100)), deletes=5) as governor:
        append(lake, governor, 1)
        wait_until(lambda: governor.checks > 0)
        oracle.attach(catalog.attach)
        oracle.execute("DELETE FROM events WHERE id BETWEEN 100 AND 104")

        wait_until(lambda: lake.inlined_state("main.events").file_deletes == 0)
        wait_until(lambda: governor.flushes == 1)

    assert lake.table("main.events").count() == 1996


def test_dropped_table_is_forgotten(catalog: Catalog, lake: Lake) -> None:
    with govern(catalog, rows=100) as governor:
        append(lake, governor, 10)
        lake.drop_table("main.events")
        lake.create_table("main.others", {"id": "int64"})
        lake.set_option("data_inlining_row_limit", 1000, table="main.others")
        lake.append("main.others", {"id": list(range(100))})
        governor.note("main.others", 100, 800)
        wait_until(lambda: governor.flushes == 1)
        assert lake.inlined_state("main.others").rows == 0


def test_catalog_that_is_away_is_tried_again(catalog: Catalog, lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    rests = Rests(after_error=timedelta(milliseconds=10))
    failures = iter([OSError("away"), OSError("away")])

    def open_lake() -> Lake:
        for error in failures:
            raise error
        return Lake.open(catalog.url)

    with closing(FlushGovernor(FlushPolicy(rows=1), open_lake, rests=rests)) as governor:
        append(lake, governor, 1)
        wait_until(lambda: inlined(lake) == 0)

    said = [record for record in caplog.records if record.getMessage().startswith("flush_failed")]
    assert [record.getMessage() for record in said] == [
        'flush_failed times=1 error="OSError: away"',
        'flush_failed times=2 error="OSError: away"',
    ]
    assert [record.exc_info is not None for record in said] == [True, False]


def test_catalog_that_is_away_is_not_asked_again_at_once(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    happened: list[object] = []
    rests = Rests(after_error=timedelta(hours=1), wait=lambda _, __, seconds: happened.append(seconds))

    def fail() -> Lake:
        happened.append("asked")
        raise OSError("away")

    with closing(FlushGovernor(FlushPolicy(rows=1), fail, rests=rests)) as governor:
        append(lake, governor, 1)
        wait_until(lambda: len(happened) >= 4)

    assert happened[:4] == ["asked", 3600.0] * 2
    assert any("flush_failed" in message for message in caplog.messages)


def test_table_that_cannot_be_flushed_keeps_no_other_waiting(
    catalog: Catalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create_table("main.others", {"id": "int64"})
    lake.append("main.others", {"id": [1]})
    flush = Lake.flush_inlined

    def refuse(self: Lake, table: str, keep_superseded: str) -> FlushResult:
        if table == "main.events":
            raise CommitConflict("busy")
        return flush(self, table, keep_superseded=keep_superseded)

    monkeypatch.setattr(Lake, "flush_inlined", refuse)
    with govern(catalog, rows=1) as governor:
        append(lake, governor, 1)
        governor.note("main.others", 1, 8)
        wait_until(lambda: lake.inlined_state("main.others").rows == 0)

    assert inlined(lake) == 1


def test_batch_waits_for_a_flush_that_is_far_behind_and_no_longer_than_its_budget(catalog: Catalog, lake: Lake) -> None:
    may_open = threading.Event()

    def open_late() -> Lake:
        may_open.wait()
        return Lake.open(catalog.url)

    with closing(FlushGovernor(FlushPolicy(rows=10, budget="200ms"), open_late)) as governor:
        append(lake, governor, 39)
        assert governor.wait_if_behind() == 0  # nobody waits below four thresholds
        append(lake, governor, 1)
        assert governor.wait_if_behind() > 0  # and it returns, though the flush cannot begin
        may_open.set()
        wait_until(lambda: inlined(lake) == 0)
        wait_until(lambda: governor.wait_if_behind() == 0)


# ---------------------------------------------------------------------------------- what an earlier run has left


def leave_inlined(lake: Lake, table: str, stream: str | None) -> datetime:
    """Inline a row as a stream would, and return when."""
    if table not in {found.name for found in lake.tables()}:
        lake.create_table(table, {"id": "int64"})
        lake.set_option("data_inlining_row_limit", 1000, table=table)
    with lake.transaction(extra_info=None if stream is None else json.dumps({"stream": stream})) as tx:
        tx.append(table, {"id": [1]})
    return lake.snapshots()[-1].snapshot_time


def test_tables_that_a_stream_wrote_to_before_are_flushed_by_age_although_nothing_comes(
    catalog: Catalog, lake: Lake
) -> None:
    options = parse_options({"catalog": catalog.url, "table": "main.events", "on_bad_row": "quarantine"})
    leave_inlined(lake, "main.events", None)
    leave_inlined(lake, "main.events_dead_letters", None)
    leave_inlined(lake, "main.routed", "mine")
    leave_inlined(lake, "main.of_others", "another")
    last = leave_inlined(lake, "main.by_hand", None)
    now = [last]
    find, open_lake = partial(tables_of_stream, options), partial(Lake.open, catalog.url)

    with closing(FlushGovernor(FlushPolicy(age="30s"), open_lake, find, lambda: now[0])) as governor:
        governor.watch_stream("mine")
        wait_until(lambda: governor.checks == 3)  # all are young
        assert governor.flushes == 0
        now[0] += timedelta(seconds=31)
        governor.note("main.events", 0, 0)  # a batch without rows, and the thread looks
        wait_until(lambda: governor.flushes == 3)

    left = {table.name: lake.inlined_state(table.name).rows for table in lake.tables()}
    assert {name for name, rows in left.items() if rows} == {"main.of_others", "main.by_hand"}


def test_table_that_cannot_be_counted_keeps_no_other_of_the_stream_waiting(
    catalog: Catalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = parse_options({"catalog": catalog.url, "table": "main.events"})
    for table, stream in (("main.events", None), ("main.routed", "mine"), ("main.bad", "mine"), ("main.odd", "other")):
        leave_inlined(lake, table, stream)
    count = Lake.inlined_state

    def refuse(self: Lake, table: str) -> InlinedState:
        if table in ("main.bad", "main.odd"):
            raise CorruptCatalog("such a table")
        return count(self, table)

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "inlined_state", refuse)
        find, open_lake = partial(tables_of_stream, options), partial(Lake.open, catalog.url)
        with closing(FlushGovernor(FlushPolicy(rows=1), open_lake, find)) as governor:
            governor.watch_stream("mine")
            wait_until(lambda: governor.flushes == 2)

    assert {name: lake.inlined_state(name).rows for name in ("main.events", "main.routed")} == {
        "main.events": 0,
        "main.routed": 0,
    }


def test_own_tables_are_flushed_although_those_of_the_stream_cannot_be_found(
    catalog: Catalog, lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    leave_inlined(lake, "main.events", "mine")

    def find(_: Lake, __: str | None) -> Iterator[str]:
        yield "main.events"
        raise CorruptCatalog("no list of tables")

    with closing(FlushGovernor(FlushPolicy(rows=1), partial(Lake.open, catalog.url), find)) as governor:
        governor.watch_stream("mine")
        wait_until(lambda: governor.flushes == 1)

    assert inlined(lake) == 0
    assert any("no list of tables" in message for message in caplog.messages)


@pytest.mark.parametrize("stream", ["mine", "m_n%", 'a "quoted" \\ one', "größe"])
def test_tables_of_a_stream_are_found_by_its_very_name(catalog: Catalog, lake: Lake, stream: str) -> None:
    options = parse_options({"catalog": catalog.url, "route": "topic"})
    leave_inlined(lake, "main.routed", stream)
    for number, other in enumerate((stream.upper(), f"{stream}2", f"x{stream}", stream.replace("_", "i"), "", None)):
        leave_inlined(lake, f"main.other{number}", None if other == stream else other)
    leave_inlined(lake, "main.flushed", stream)
    lake.flush_inlined("main.flushed")
    leave_inlined(lake, "main.dropped", stream)
    lake.drop_table("main.dropped")

    assert list(tables_of_stream(options, lake, stream)) == ["main.routed"]


def test_search_for_the_tables_of_a_stream_reads_no_history_and_counts_no_other_table(
    catalog: Catalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = parse_options({"catalog": catalog.url, "route": "topic"})
    for table, stream in (("main.routed", "mine"), ("main.other", "another")):
        for _ in range(10):
            leave_inlined(lake, table, stream)
    read: list[int] = []
    counted: list[str] = []
    query, count = Session.query, Lake.inlined_state

    def query_and_note(self: Session, statement: Any, **parameters: Any) -> list[Row]:  # Any: as it is
        rows = query(self, statement, **parameters)
        read.append(len(rows))
        return rows

    def count_and_note(self: Lake, table: str) -> InlinedState:
        counted.append(table)
        return count(self, table)

    monkeypatch.setattr(Session, "query", query_and_note)
    monkeypatch.setattr(Lake, "inlined_state", count_and_note)

    assert list(tables_of_stream(options, lake, "mine")) == ["main.routed"]
    assert max(read) <= len(lake.tables())
    assert counted == ["main.routed"]


def test_snapshot_of_a_sink_tells_its_stream_as_it_is_looked_for() -> None:
    options = parse_options({"catalog": "sqlite:///x", "table": "t", "stream": 'a "b"', "job": "j"})

    for epoch in (None, Epoch('a "b"', 3, "q", "r")):
        assert EpochStart(Query("q", "r"), epoch).extra_info(options).startswith(told_of('a "b"'))


def test_stream_begins_to_be_watched_before_its_lake_is_there(catalog: Catalog) -> None:
    with closing(FlushGovernor(FlushPolicy(rows=1), partial(Lake.open, catalog.url))) as governor:
        governor.watch_stream("mine")
        with Lake.create(catalog.url, catalog.data_path) as lake:
            lake.create_table("main.events", {"id": "int64"})
            append(lake, governor, 1)
            wait_until(lambda: inlined(lake) == 0)


def test_flush_is_said_once_with_its_facts(catalog: Catalog, lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    with govern(catalog, rows=2) as governor:
        append(lake, governor, 2)
        wait_until(lambda: governor.flushes == 1)

    [line] = [message for message in caplog.messages if message.startswith("flushed")]
    for part in ("table=main.events", "rows=2", "files=1", "snapshot=3", "bytes=", "milliseconds="):
        assert part in line
