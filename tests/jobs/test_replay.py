"""Dead letters are fed in again exactly once: rows go in and letters are marked in one snapshot."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ducklake_core import Lake
from ducklake_core.errors import CommitConflict
from ducklake_core.read.positions import RowPositions
from ducklake_sinks import DuckLakeSink
from ducklake_sinks.letter_positions import positions_of
from ducklake_sinks.modes import replay
from ducklake_streaming.jobs.letter_filter import LetterFilter
from ducklake_streaming.jobs.replay import LetterReplay, ReplayResult
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.pipelines import DEAD, NAME, MakeWriter, make_job
from tests.fixtures.records import record_frame

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)]

VALUES: list[bytes | None] = [b'{"id": 1}', b'{"id": "2"}', b'{"id": "3"}', b"no JSON"]
LENIENT = {"schema": "id string, n bigint", "sql": "SELECT CAST(id AS bigint) AS id, n FROM input"}  # it mends them
LENGTHS = {"format": "raw", "schema": None, "sql": "SELECT CAST(length(value) AS bigint) AS id, 0L AS n FROM input"}
ALL = LetterFilter()


@contextmanager
def replaying(catalog: Catalog, **options: Any) -> Iterator[tuple[LetterReplay, Lake]]:  # Any: see make_job
    again = LetterReplay(make_job(catalog, **{**LENIENT, **options}), NAME)
    try:
        with Lake.open(catalog.url) as lake:
            yield again, lake
    finally:
        again.close()


@pytest.fixture
def written(spark: SparkSession, catalog: Catalog, make_writer: MakeWriter) -> Catalog:
    """Give a lake with one row and three letters."""
    make_writer().write(record_frame(spark, VALUES), 0)
    return catalog


def letter_ids(lake: Lake) -> dict[int, int]:
    """Return the id of each letter, by its offset."""
    letters = ALL.read(lake, DEAD)
    return dict(zip(letters.column("offset").to_pylist(), letters.column("id").to_pylist(), strict=True))


def state(oracle: Oracle, catalog: Catalog) -> tuple[list[Any], list[Any]]:
    """Return the ids, and of each letter whether it was replayed and why it is there."""
    oracle.attach(catalog.attach)
    ids = oracle.query("SELECT id FROM orders ORDER BY id")
    letters = oracle.query(f'SELECT replayed_at IS NOT NULL, reason FROM {DEAD} ORDER BY "offset", "partition"')
    oracle.detach()
    return [one for (one,) in ids], letters


@pytest.mark.parametrize("is_flushed", [False, True], ids=["inlined", "flushed"])
def test_letters_go_in_once_and_those_that_fail_again_stay(
    spark: SparkSession, written: Catalog, oracle: Oracle, *, is_flushed: bool
) -> None:
    with replaying(written) as (again, lake):
        if is_flushed:
            lake.flush_inlined()
        before, named = len(lake.snapshots()), letter_ids(lake)

        first = again.run(lake, ALL, lambda: spark)
        after = len(lake.snapshots())
        second = again.run(lake, ALL, lambda: spark)
        assert letter_ids(lake) == named

    assert (first, second) == (ReplayResult(2, 1), ReplayResult(0, 0))
    assert after == before + 1
    ids, letters = state(oracle, written)
    assert ids == [1, 2, 3]
    assert [is_replayed for is_replayed, _ in letters] == [True, True, False]
    assert "Expecting value" in letters[2][1]
    check_lake(written, orphans=0)


def test_a_later_replay_takes_what_failed_and_nothing_else(
    spark: SparkSession, written: Catalog, oracle: Oracle
) -> None:
    for options in ({}, {}, LENGTHS):
        with replaying(written, **options) as (again, lake):
            again.run(lake, ALL, lambda: spark)

    ids, letters = state(oracle, written)
    assert ids == [1, 2, 3, 7]
    assert [is_replayed for is_replayed, _ in letters] == [True] * 3


def test_filters_choose_letters(spark: SparkSession, written: Catalog, oracle: Oracle) -> None:
    with replaying(written) as (again, lake):
        by_reason = again.find(lake, LetterFilter(reason="%no bigint%"))
        one = LetterFilter(ids=by_reason.column("id").to_pylist()[1:])

        assert again.find(lake, LetterFilter(topic="other")).num_rows == 0
        assert again.find(lake, LetterFilter(limit=1)).num_rows == 1
        assert again.run(lake, one, lambda: spark) == ReplayResult(1, 0)

    assert by_reason.num_rows == 2
    assert state(oracle, written)[0] == [1, 3]


def test_two_at_once_do_not_both_feed_in_a_letter(spark: SparkSession, written: Catalog, oracle: Oracle) -> None:
    with replaying(written) as (late, lake), replaying(written) as (early, _):
        chosen = late.find(lake, ALL)
        early.run(lake, ALL, lambda: spark)

        with pytest.raises(CommitConflict, match="by another meanwhile"):
            late.feed(chosen, spark)

    assert state(oracle, written)[0] == [1, 2, 3]


def test_letters_that_a_merge_moves_meanwhile_are_looked_for_again(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, merged = make_writer(), list[int]()
    for batch, value in enumerate((b'{"id": "2"}', b'{"id": "3"}')):
        writer.write(record_frame(spark, [value], topic=f"orders{batch}"), batch)
        with Lake.open(catalog.url) as lake:
            lake.flush_inlined(DEAD)

    def find_and_merge(lake: Lake, *arguments: Any, **named: Any) -> RowPositions:  # Any: passed on
        found = positions_of(lake, *arguments, **named)
        if not merged:
            with Lake.open(catalog.url) as other:
                merged.append(other.merge_adjacent_files(DEAD).total.files_before)
        return found

    monkeypatch.setattr(replay, "positions_of", find_and_merge)
    with replaying(catalog) as (again, lake):
        assert again.run(lake, ALL, lambda: spark) == ReplayResult(2, 0)

    assert merged == [2]
    assert state(oracle, catalog)[0] == [2, 3]


def test_process_that_dies_before_the_commit_has_done_nothing(
    spark: SparkSession, written: Catalog, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(oracle, written)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with replaying(written) as (again, lake):
        monkeypatch.setattr("ducklake_core.transaction.Transaction.commit", die)
        with pytest.raises(KeyboardInterrupt):
            again.run(lake, ALL, lambda: spark)
        monkeypatch.undo()

    assert state(oracle, written) == before


def test_letters_of_rows_that_fit_after_the_table_is_mended_go_in(
    spark: SparkSession, catalog: Catalog, make_writer: MakeWriter, oracle: Oracle
) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("main.orders", {"id": "int32"})
    made = make_writer(schema="id bigint")
    made.write(record_frame(spark, [b'{"id": 1}', b'{"id": 5000000000}']), 0)

    with replaying(catalog, schema="id bigint", sql=None) as (again, lake):
        assert again.run(lake, ALL, lambda: spark) == ReplayResult(0, 1)
    with Lake.open(catalog.url) as lake:
        lake.promote_column("main.orders", "id", "int64")
    with replaying(catalog, schema="id bigint", sql=None) as (again, lake):
        assert again.run(lake, ALL, lambda: spark) == ReplayResult(1, 0)

    assert state(oracle, catalog)[0] == [1, 5000000000]
    assert isinstance(made.sink, DuckLakeSink)
