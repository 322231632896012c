"""Contention is retried without rewriting files, up to the policy's end; a conflict ends at once, with its snapshot."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from ducklake_core import Lake, faults
from ducklake_core.errors import CommitConflict, ContentionError
from ducklake_core.retries import Patience
from tests.fixtures.catalogs import PostgresCatalog
from tests.fixtures.consistency import check_lake, stored_files
from tests.fixtures.patience import WaitClock, patience_for
from tests.fixtures.postgres import PostgresDatabase


@pytest.fixture
def catalog(postgres_database: PostgresDatabase, tmp_path: Path) -> PostgresCatalog:
    """Give a lake on PostgreSQL: on SQLite a writer holds the lock from its first read on, so nobody can be beaten."""
    catalog = PostgresCatalog(postgres_database, f"{tmp_path}/data/")
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64"})
        lake.append("t", {"id": list(range(100, 150))})
        lake.delete("t", "id < 120")
    return catalog


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def lake(catalog: PostgresCatalog, slept: list[float]) -> Iterator[Lake]:
    """Give a lake that tries five times and does not really sleep."""
    with Lake.open(catalog.url, catalog_timeout=patience_for(5, slept.append)) as lake:
        yield lake


def test_append_that_loses_its_snapshot_id_is_retried_with_the_same_file(
    catalog: PostgresCatalog, lake: Lake, slept: list[float]
) -> None:
    files = stored_files(catalog)
    with beaten(catalog, 3, lambda rival, n: rival.append("t", {"id": [n]})):
        snapshot = lake.append("t", {"id": list(range(200, 300))})

    assert snapshot is not None
    assert snapshot.snapshot_id == 7
    assert len(slept) == 3
    assert len(stored_files(catalog) - files) == 1
    assert sorted(lake.table("t").read()["id"].to_pylist()) == [1, 2, 3, *range(120, 150), *range(200, 300)]
    check_lake(catalog)


def test_retries_wait_longer_and_longer_up_to_a_second(catalog: PostgresCatalog, lake: Lake) -> None:
    clock = WaitClock()
    lake.database.patience = Patience(sleep=clock.sleep, clock=clock.read)
    attempts: list[float] = []

    def beat(rival: Lake, number: int) -> None:
        attempts.append(clock.now)
        rival.append("t", {"id": [number]})

    with beaten(catalog, 12, beat):
        lake.append("t", {"id": [0]})

    slept = [end - start for start, end in pairwise([*attempts, clock.now])]
    assert len(slept) == 12
    assert all(0 <= seconds <= min(1.0, 0.01 * 2**n) for n, seconds in enumerate(slept, 1))
    assert len(set(slept)) == 12


def test_exhausted_retries_leave_nothing_behind(catalog: PostgresCatalog, lake: Lake, slept: list[float]) -> None:
    files = stored_files(catalog)
    with (
        beaten(catalog, 99, lambda rival, n: rival.append("t", {"id": [n]})),
        pytest.raises(ContentionError, match="retries are exhausted"),
    ):
        lake.append("t", {"id": list(range(200, 300))})

    assert len(slept) == 4
    assert stored_files(catalog) == files
    assert sorted(lake.table("t").read()["id"].to_pylist()) == [1, 2, 3, 4, 5, *range(120, 150)]
    check_lake(catalog)


def test_delete_that_loses_its_snapshot_id_to_an_append_leaves_one_delete_file(
    catalog: PostgresCatalog, lake: Lake
) -> None:
    """The merged delete file names its snapshot, so it is the one kind of file that is written again."""
    with beaten(catalog, 2, lambda rival, n: rival.append("t", {"id": [n]})):
        lake.delete("t", "id < 140")

    assert sorted(lake.table("t").read()["id"].to_pylist()) == [1, 2, *range(140, 150)]
    assert lake.table("t", at=5).count() == 32
    check_lake(catalog)


@pytest.mark.parametrize(
    ("mine", "rivals", "message"),
    [
        (
            lambda lake: lake.append("t", {"id": list(range(100))}),
            lambda rival, _: rival.drop_table("t"),
            "table 'main.t' was dropped in snapshot 4",
        ),
        (
            lambda lake: lake.append("t", {"id": [1]}),
            lambda rival, _: rival.rename_table("t", "u"),
            "table 'main.t' was renamed to 'main.u' in snapshot 4",
        ),
        (
            lambda lake: lake.append("t", {"id": [1]}),
            lambda rival, _: rival.add_column("t", "x", "int32"),
            "table 'main.t' was altered in snapshot 4",
        ),
        (
            lambda lake: lake.delete("t", "id < 140"),
            lambda rival, _: rival.delete("t", "id = 149"),
            "table 'main.t' had rows deleted in snapshot 4",
        ),
        (
            lambda lake: lake.update("t", {"id": 0}, "id = 140"),
            lambda rival, _: rival.delete("t", "id = 149"),
            "table 'main.t' had rows deleted in snapshot 4",
        ),
        (
            lambda lake: lake.create_table("u", {"id": "int64"}),
            lambda rival, _: rival.create_table("U", {"id": "int64"}),
            "table 'main.U' was created in snapshot 4",
        ),
        (
            lambda lake: lake.add_column("t", "x", "int32"),
            lambda rival, _: rival.add_column("t", "y", "int32"),
            "table 'main.t' was altered in snapshot 4",
        ),
    ],
    ids=[
        "append, drop", "append, rename", "append, alter", "delete, delete", "update, delete", "create, create",
        "alter, alter",
    ],
)  # fmt: skip
def test_conflict_ends_at_once_names_its_snapshot_and_leaves_nothing_behind(
    catalog: PostgresCatalog,
    lake: Lake,
    slept: list[float],
    mine: Callable[[Lake], object],
    rivals: Callable[[Lake, int], object],
    message: str,
) -> None:
    files = stored_files(catalog)
    with beaten(catalog, 1, rivals), pytest.raises(CommitConflict, match=message) as caught:
        mine(lake)

    assert caught.value.snapshot_id == 4
    assert len(slept) <= 1  # the first attempt may lose its id before it can see the conflict
    assert stored_files(catalog) == files
    assert len(lake.snapshots()) == 5
    check_lake(catalog)


def test_append_goes_on_beside_changes_that_do_not_touch_it(catalog: PostgresCatalog, lake: Lake) -> None:
    def change(rival: Lake, number: int) -> None:
        match number:
            case 1:
                rival.create_table("other", {"id": "int64"})
            case 2:
                rival.delete("t", "id = 149")
            case 3:
                rival.set_comment("t", "rows come and go")

    with beaten(catalog, 3, change):
        lake.append("t", {"id": [1]})

    assert sorted(lake.table("t").read()["id"].to_pylist()) == [1, *range(120, 149)]
    check_lake(catalog)


def test_append_goes_on_beside_the_first_inlined_insert_of_another(catalog: PostgresCatalog, lake: Lake) -> None:
    lake.set_option("data_inlining_row_limit", 0)
    lake.create_table("late", {"id": "int64"})
    lake.set_option("data_inlining_row_limit", 10)

    with beaten(catalog, 1, lambda rival, _: rival.append("late", {"id": [1]})):
        lake.append("late", {"id": [2]})

    assert sorted(lake.table("late").read()["id"].to_pylist()) == [1, 2]
    assert len(catalog.query("SELECT * FROM ducklake_inlined_data_tables WHERE table_id = 2")) == 1
    check_lake(catalog)


@contextmanager
def beaten(catalog: PostgresCatalog, times: int, act: Callable[[Lake, int], object]) -> Iterator[None]:
    """Let a rival commit between our reading of the head and our commit, for a number of attempts."""
    done = 0

    def rival_commits() -> None:
        nonlocal done
        if done < times and not done_by_rival:
            done += 1
            done_by_rival.append(True)
            act(rival, done)
            done_by_rival.clear()

    done_by_rival: list[bool] = []  # the rival passes the same point and must not meet a rival of its own
    with Lake.open(catalog.url) as rival:
        faults.inject("before_commit", rival_commits)
        try:
            yield
        finally:
            faults.inject("before_commit", None)
