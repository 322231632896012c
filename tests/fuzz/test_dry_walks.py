"""Random walks without a lake: each act finds something to act on, and the tests take the same walks every time.

A dry walk takes milliseconds, so these go where the few walks of the tests, which read real lakes, seldom come.
"""

import random
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fuzz.test_feed_walk import FeedWalk
from tests.fuzz.test_walk import walk_settings

pytestmark = [pytest.mark.slow, pytest.mark.fuzz]


class DryWalk(FeedWalk):
    """A walk whose acts change the model and nothing else: the lake and DuckDB take whatever they are told."""

    make_catalog = staticmethod(MagicMock)
    sessions = MagicMock(spec=["fresh", "opened", "reset"])
    said: list[str]

    def __init__(self) -> None:
        super().__init__()
        self.lake = MagicMock()
        self.lake.doctor.return_value = []
        self.retained = [0]
        self.lake.snapshots = lambda: [MagicMock(snapshot_id=i) for i in self.retained]
        self.fresh = MagicMock()
        self.fresh.execute.side_effect = self._expire

    def create_lake(self, actor: str) -> None:
        raise NotImplementedError("a dry walk has no lake")

    def _step(self, actor: str, acts: Any) -> None:  # Any: see Act
        self.said += [f"{actor}: {sql}" for _, sql in acts]
        self._check()

    def _do(self, actor: str, ours: object, sql: str) -> None:  # noqa: ARG002 # as in the walk
        self.said.append(f"{actor}: {sql}")

    def _check(self) -> None:
        for table in self.tables.values():
            for names in (table.columns, *(type_.fields for _, type_ in table.columns)):
                assert len(dict(names)) == len(names), names
        self.retained.append(self.retained[-1] + 1)
        self.history[self.retained[-1]] = dict(self.tables)
        self.history = self._complete(set(self.retained))

    def _session(self, actor: str) -> Any:  # noqa: ARG002 # as in the walk; Any: a mock
        return self.fresh

    def _expire(self, statement: str) -> None:
        self.said.append(statement)
        if "versions => " in statement:
            gone = statement.split("versions => ")[1].strip("[)]").split(", ")
            self.retained = [i for i in self.retained if str(i) not in gone]


def walk(count: int, steps: int) -> list[str]:
    """Take some walks; return what they told the lake and DuckDB."""
    said: list[str] = []
    here = type("DryWalkHere", (DryWalk,), {"said": said})
    chosen = settings(walk_settings(), max_examples=count, stateful_step_count=steps, phases=[Phase.generate])
    run_state_machine_as_test(here, settings=chosen)
    return said


def test_every_act_finds_something_to_act_on_and_names_are_new() -> None:
    said = walk(count=150, steps=40)

    assert any("RENAME COLUMN" in act for act in said)
    assert any("expire_snapshots" in act for act in said)


@pytest.mark.skipif(settings.get_current_profile_name() == "fuzz", reason="`make fuzz` draws new walks each time")
def test_walks_are_the_same_whatever_seed_the_order_of_tests_has() -> None:
    random.seed(1)
    first = walk(count=5, steps=10)
    random.seed(2)

    assert walk(count=5, steps=10) == first
    assert first
