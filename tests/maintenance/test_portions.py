"""A table that is compacted in several portions: at the end all is as if it were one, and what was done is told."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ducklake_core import Lake, compact_all
from ducklake_core.errors import CatalogUnavailable, UnwritableFile
from ducklake_core.maintenance import compaction
from ducklake_core.maintenance.compaction_method import TableAt
from ducklake_core.maintenance.report import Work
from ducklake_core.observe import Event, MaintenanceDone, TableNotMaintained
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.faults import at_fault
from tests.fixtures.histories import check_history, history_of


class Heard:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def lake(catalog: Catalog, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """Give a lake with a table of three partitions, a file with deletes in each. Each portion is one of these."""
    monkeypatch.setattr(compaction, "PORTION_SECONDS", 0.0)
    with Lake.create(catalog.url, catalog.data_path, recorder=heard) as lake:
        lake.set_option("data_inlining_row_limit", 0)
        lake.create_table("t", {"i": "int64", "p": "varchar"}, partition_by=["p"])
        for number, p in enumerate("abc"):
            lake.append("t", {"i": list(range(20 * number, 20 * number + 20)), "p": [p] * 20})
        lake.delete("t", "i < 5 OR i = 30 OR i >= 55")
        yield lake


def in_portion(number: int, act: Callable[[], object]) -> Callable[[], None]:
    """Return a function that does something the so-manieth time that it is called."""
    calls = itertools.count(1)

    def called() -> None:
        if next(calls) == number:
            act()

    return called


def fail() -> None:
    raise UnwritableFile("the disk is full", path="somewhere")


def rewrite(lake: Lake) -> Work:
    [work] = lake.rewrite_data_files("t", delete_threshold=0.01).work
    return work


def statistics(catalog: Catalog) -> tuple[Any, ...]:  # Any: rows of the catalog
    [rows] = catalog.query("SELECT record_count, next_row_id FROM ducklake_table_stats")
    [bounds] = catalog.query("SELECT min_value, max_value FROM ducklake_table_column_stats WHERE column_id = 1")
    return *rows, *bounds


def test_statistics_are_exact_after_the_last_portion(lake: Lake, catalog: Catalog) -> None:
    before = len(lake.snapshots())

    rewrite(lake)

    assert len(lake.snapshots()) == before + 3
    assert statistics(catalog) == (49, 60, "5", "54")
    check_lake(catalog)


def test_rows_that_come_between_portions_are_in_the_exact_statistics(lake: Lake, catalog: Catalog) -> None:
    with (
        Lake.open(catalog.url) as other,
        at_fault("after_compaction_write", in_portion(2, lambda: other.append("t", {"i": [-7], "p": ["a"]}))),
    ):
        rewrite(lake)

    assert statistics(catalog) == (50, 61, "-7", "54")
    check_lake(catalog)


def test_rows_that_come_while_statistics_are_worked_out_leave_them_wide(
    lake: Lake, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = compact_all._look
    with Lake.open(catalog.url) as other:
        # It looks for the table, at its files, and before each of three commits.
        meanwhile = in_portion(5, lambda: other.append("t", {"i": [99], "p": ["a"]}))

        def look_and_lose_time(lake: Lake, name: str) -> TableAt:
            found = look(lake, name)
            meanwhile()
            return found

        monkeypatch.setattr(compact_all, "_look", look_and_lose_time)
        rewrite(lake)

    assert statistics(catalog) == (61, 61, "0", "99")
    check_lake(catalog)


def test_what_was_committed_is_told_beside_what_failed_later(lake: Lake, catalog: Catalog, heard: Heard) -> None:
    before = history_of(lake)

    with at_fault("after_compaction_write", in_portion(3, fail)):
        work = rewrite(lake)

    assert (work.files_before, work.files_after, work.rows) == (2, 2, 34)
    assert work.error == "UnwritableFile: the disk is full"
    [run] = lake.maintenance_runs()
    assert (run.outcome, run.files_before, run.detail) == ("failed", 2, work.error)
    assert len(heard.of(MaintenanceDone)) == len(heard.of(TableNotMaintained)) == 1
    check_history(lake, before)
    check_lake(catalog)
    assert rewrite(lake).files_before == 1


def test_table_that_is_dropped_between_portions_is_no_failure(lake: Lake, catalog: Catalog) -> None:
    with (
        Lake.open(catalog.url) as other,
        at_fault("after_compaction_write", in_portion(2, lambda: other.drop_table("t"))),
    ):
        work = rewrite(lake)

    assert (work.files_before, work.error, work.skipped) == (1, None, "it was dropped or renamed meanwhile")
    check_lake(catalog, orphans=1)  # of a task that was under way


@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_tables_that_were_done_are_told_though_the_catalog_is_away_then(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("u", "v"):
        lake.create_table(name, {"i": "int64"})
    works = iter([Work("main.t", files_before=2, files_after=1)])

    def compact(*_: object) -> Work:
        for work in works:
            return work
        raise CatalogUnavailable("cannot reach the catalog")

    monkeypatch.setattr(compact_all, "_compact", compact)

    report = lake.merge_adjacent_files()

    assert [work.table for work in report.work] == ["main.t", "main.u", "main.v"]
    assert (report.total.files_before, report.has_failed) == (2, True)
    assert report.work[1].error == "CatalogUnavailable: cannot reach the catalog"
    assert report.work[2].skipped == "the catalog was away before its turn"
    with pytest.raises(CatalogUnavailable):
        lake.merge_adjacent_files()
