"""A merge or rewrite dies at each step: every snapshot reads as before, a later run completes, orphans may be left."""

import os
from functools import partial

import pytest

from ducklake_core import Lake, faults
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.histories import check_history, history_of
from tests.fixtures.leases import WHEN_LEASES_HAVE_RUN_OUT
from tests.fixtures.processes import join, start

KILLED = 9
POINTS = {"after_compaction_write": 1, "after_head_read": 1, "before_commit": 1, "after_commit": 0}  # and orphans then


def die_in(url: str, point: str, operation: str) -> None:
    faults.inject(point, partial(os._exit, KILLED))
    with Lake.open(url) as lake:
        maintain(lake, operation)


def maintain(lake: Lake, operation: str) -> int:
    """Return how many files were taken."""
    report = lake.merge_adjacent_files("t") if operation == "merge" else lake.rewrite_data_files("t")
    return report.total.files_before


@pytest.mark.parametrize("operation", ["merge", "rewrite"])
@pytest.mark.parametrize("point", POINTS)
def test_compaction_that_dies_changes_nothing_that_is_read(catalog: Catalog, point: str, operation: str) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.set_option("rewrite_delete_threshold", 0.5)
        lake.create_table("t", {"i": "int64"})
        for first in (0, 100, 200):
            lake.append("t", {"i": list(range(first, first + 20))})
        lake.delete("t", "i >= 204")
        before = history_of(lake)

        codes = join(start(die_in, catalog.url, point, operation))

        assert codes == [KILLED]
        check_lake(catalog, orphans=POINTS[point])
        check_history(lake, before)
        expected = 0 if point == "after_commit" else 2 if operation == "merge" else 1
        with Lake.open(catalog.url, clock=WHEN_LEASES_HAVE_RUN_OUT) as later:
            assert maintain(later, operation) == expected
        check_history(lake, before)
        check_lake(catalog, orphans=POINTS[point])
