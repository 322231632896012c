"""Walks that once failed, step by step: what `make fuzz` finds is written down here, as it was printed.

A step `state.delete(actor='us', data=data(...), seed=7)` becomes `walk.delete("us", drawn("t1"), 7)`: `drawn` has what
hypothesis printed as `Draw 1: 't1'`. Types are in `model`: `int32` is `SCALARS["int32"]`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.model import SCALARS, STRUCT
from tests.fuzz.places import Sessions, sqlite_catalogs
from tests.fuzz.test_feed_walk import FeedWalk

pytestmark = pytest.mark.slow


class Drawn:
    """What hypothesis has drawn in a step, to be drawn again."""

    def __init__(self, values: tuple[object, ...]) -> None:
        self._values = iter(values)

    def draw(self, _: object) -> object:
        return next(self._values)


def drawn(*values: object) -> Any:  # Any: it stands for hypothesis' own data
    return Drawn(values)


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[FeedWalk]:
    sessions = Sessions()
    with sqlite_catalogs(tmp_path) as make:
        here = type("WalkHere", (FeedWalk,), {"make_catalog": staticmethod(make), "sessions": sessions})
        walk: FeedWalk = here()
        walk.create_lake("us")
        yield walk
        walk.teardown()
    sessions.close()


def test_table_that_has_only_its_key_left_has_nothing_to_rename(walk: FeedWalk) -> None:
    walk.create_table("us", [SCALARS["int32"]])
    walk.set_partitioning("us", drawn("t1"), bucketed=False)
    assert walk._renamable() == [("t1", "c1")]

    walk.drop_column("us", drawn("t1", "c1"))

    assert walk._renamable() == []


def test_new_field_has_a_new_name_after_snapshots_have_expired(walk: FeedWalk) -> None:
    walk.create_table("us", [STRUCT])
    walk.change_struct("us", drawn(("t1", "c1"), "a"), "add")
    for seed in range(2):
        walk.append("us", drawn("t1"), seed, 2)

    walk.expire("duckdb", drawn([1, 2, 3]))

    walk.change_struct("us", drawn(("t1", "c1"), "a"), "add")
