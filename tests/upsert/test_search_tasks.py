"""The search for keys as tasks, where much is to be read: the same rows, and the process itself opens no data file."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from ducklake_core import Lake, UpsertMemory, UpsertReport
from ducklake_core.errors import UnreadableFile
from ducklake_core.files.storage import Storage
from tests.fixtures.catalogs import Catalog
from tests.fixtures.tasks import PickledTasks

pytestmark = pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)  # nothing of it is the catalog's
COLUMNS = {"id": "int64", "name": "varchar", "n": "int64"}


@pytest.fixture
def lake(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """Give a lake with a table of three files, in a process that keeps nothing of them."""
    monkeypatch.setattr("ducklake_core.upsert.search_tasks.LARGE_ROWS", 3000)
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", COLUMNS)
        for first in range(3):
            lake.append("t", rows(range(first, 3000, 3), "as it was"))
        yield lake


def rows(ids: range, name: str) -> pa.Table:
    return pa.table({"id": [*ids], "name": [name] * len(ids), "n": [i * 2 for i in ids]})


def at(time: int, events: pa.Table) -> pa.Table:
    return events.append_column("at", pa.array([time] * events.num_rows))


def apply(lake: Lake, events: Any, runner: PickledTasks, **arguments: Any) -> UpsertReport:  # Any: as upsert takes them
    with lake.transaction() as tx:
        return tx.upsert("t", events, keys="id", memory=UpsertMemory.searched_by(runner), **arguments)


@contextmanager
def files_only_by(runner: PickledTasks) -> Iterator[list[str]]:
    """Note which files are opened by somebody else."""
    opened: list[str] = []
    open_input = Storage.open_input

    def watched(self: Storage, path: str) -> Any:  # Any: a context manager
        if not runner.is_running:
            opened.append(path)
        return open_input(self, path)

    with patch.object(Storage, "open_input", watched):
        yield opened


def test_tasks_find_and_compare_what_the_process_then_need_not_open(lake: Lake) -> None:
    events = pa.concat_tables(
        [rows(range(2), "as it was"), rows(range(2, 5), "another"), rows(range(9000, 9001), "new")]
    )
    runner = PickledTasks()

    with files_only_by(runner) as opened:
        report = apply(lake, events, runner, apply_as_deletes="id = 4")

    assert (report.unchanged, report.updated, report.deleted, report.inserted) == (2, 2, 1, 1)
    assert opened == []
    assert len(runner.sizes) == 3, "one task for each file"
    found = {row["id"]: row["name"] for row in lake.table("t").read(filter="id < 6").to_pylist()}
    assert found == {0: "as it was", 1: "as it was", 2: "another", 3: "another", 5: "as it was"}


def test_what_tasks_get_and_give_follows_the_batch_and_not_the_table(lake: Lake) -> None:
    small, large = PickledTasks(), PickledTasks()

    apply(lake, rows(range(6), "first"), small)
    lake.append("t", rows(range(10_000, 210_000), "more"))
    apply(lake, rows(range(10_000, 10_006), "second"), large)

    assert len(large.sizes) == 1
    assert max(large.sizes) < 1.1 * max(small.sizes), "a file with two hundred times the rows"


def test_few_rows_and_those_whose_keys_are_kept_are_searched_by_the_process(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = PickledTasks()

    monkeypatch.setattr("ducklake_core.upsert.search_tasks.LARGE_ROWS", 3001)
    for name in ("first", "second", "third"):  # after the second, the keys of all files are kept
        apply(lake, rows(range(6), name), runner)
    monkeypatch.setattr("ducklake_core.upsert.search_tasks.LARGE_ROWS", 1)
    apply(lake, rows(range(3), "by what is kept"), runner)

    assert runner.sizes == []


def test_attempt_with_other_rows_is_not_answered_by_what_was_compared_before(lake: Lake) -> None:
    memory = UpsertMemory.searched_by(PickledTasks())

    with lake.transaction() as tx:
        assert tx.upsert("t", rows(range(3), "as it was"), keys="id", memory=memory).unchanged == 3
    with lake.transaction() as tx:
        report = tx.upsert("t", rows(range(3), "another"), keys="id", memory=memory)

    assert (report.updated, report.unchanged) == (3, 0)


def test_what_a_task_raises_is_the_error_of_the_upsert(lake: Lake, catalog: Catalog) -> None:
    path = lake.table("t").files()[0].path
    with Lake.open(catalog.url) as other:
        other.storage.remove(path)

    with pytest.raises(UnreadableFile):
        apply(lake, rows(range(3), "another"), PickledTasks())


def test_versions_are_read_by_tasks_and_are_the_same(lake: Lake) -> None:
    lake.create_table("v", {**COLUMNS, "__START_AT": "int64", "__END_AT": "int64"})
    arguments: dict[str, Any] = {"keys": "id", "sequence_by": "at", "stored_as_scd_type": 2, "except_columns": "at"}
    lake.upsert("v", at(1, rows(range(3000), "first")), **arguments)
    runner = PickledTasks()

    with files_only_by(runner) as opened, lake.transaction() as tx:
        memory = UpsertMemory.searched_by(runner)
        report = tx.upsert("v", at(2, rows(range(3), "second")), memory=memory, **arguments)

    assert (report.inserted, report.updated) == (3, 3)
    assert (opened, len(runner.sizes)) == ([], 1)
    found = [(r["name"], r["__START_AT"], r["__END_AT"]) for r in lake.table("v").read(filter="id = 1").to_pylist()]
    assert sorted(found) == [("first", 1, 2), ("second", 2, None)]
