"""A flush dies at each step: every snapshot reads as before, a later flush completes, only orphans may be left."""

import os
from collections.abc import Callable
from functools import partial

import pytest

from ducklake_core import Lake, faults
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.processes import join, start

KILLED = 9
# Where it dies, and how many files nobody knows of then lie about: two data files, of which one has deletes, and the
# deletes of an older file.
POINTS = {
    "after_flush_write": 4,
    "after_head_read": 4,
    "before_commit": 4,
    "after_commit": 0,
    "before_drop_superseded": 0,
}


def die_in_flush(url: str, point: str) -> None:
    die: Callable[[], None] = partial(os._exit, KILLED)
    faults.inject(point, die)
    Lake.open(url).flush_inlined()


@pytest.mark.parametrize("point", POINTS)
def test_flush_that_dies_changes_nothing_that_is_read(catalog: Catalog, oracle: Oracle, point: str) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64"})
        lake.append("t", {"i": list(range(100, 130))})
        lake.append("t", {"i": [1, 2, 3]})
        lake.delete("t", "i = 2 OR i = 105")
        lake.add_column("t", "x", "int64", 7)
        lake.append("t", {"i": [4], "x": [8]})
        before = history(lake)

        codes = join(start(die_in_flush, catalog.url, point))

        assert codes == [KILLED]
        check_lake(catalog, orphans=POINTS[point])
        lake.forget()
        assert history(lake).items() >= before.items()
        again = lake.flush_inlined(keep_superseded=0)
        assert again.dropped_tables == ("ducklake_inlined_data_1_1",)
        assert again.rows == (0 if POINTS[point] == 0 else 4)
        assert history(lake).items() >= before.items()
        assert lake.inlined_state("t").rows == lake.inlined_state("t").file_deletes == 0
        check_lake(catalog, orphans=POINTS[point])
    oracle.attach(catalog.attach)
    for at, rows in before.items():
        assert sorted(oracle.query(f"SELECT i FROM t AT (VERSION => {at})")) == [(i,) for i in rows]


def history(lake: Lake) -> dict[int, tuple[int, ...]]:
    snapshots = [s.snapshot_id for s in lake.snapshots()[1:]]
    return {i: tuple(sorted(lake.table("t", at=i).read(["i"])["i"].to_pylist())) for i in snapshots}
