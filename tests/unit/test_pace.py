"""Maintenance takes a share of the time, and ends when it is told to: clocks and waits of our own."""

import threading
from collections.abc import Callable

import pytest

from ducklake_core.clock import Clock
from ducklake_streaming.maintenance.pace import MaintenanceStopped, Pace
from ducklake_streaming.maintenance.runners import PacedRunner, WatchedRunner, run_in_process


class Hands(threading.Event):
    """A clock whose time passes by work and by waiting, and the event that stops it all."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        self.rests: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.rests.append(timeout)
        self.time += timeout
        return self.is_set()

    def clock(self) -> Clock:
        return Clock(seconds=lambda: self.time)

    def work(self, seconds: float) -> float:
        self.time += seconds
        return seconds


def test_rests_are_in_proportion_to_the_work_since_the_last_one() -> None:
    hands = Hands()
    runner = PacedRunner(run_in_process, Pace(0.25, hands, hands.clock()))

    done = list(runner(hands.work, [1.0, 5.0]))

    assert done == [1.0, 5.0]
    assert hands.rests == [3.0, 15.0]


def test_a_share_of_one_never_rests() -> None:
    hands = Hands()
    pace = Pace(1.0, hands, hands.clock())
    hands.work(5)

    pace.rest()

    assert hands.rests == [0.0]


def test_a_stop_ends_tasks_after_the_one_that_runs_and_its_result_is_taken() -> None:
    hands = Hands()

    def work(task: int) -> int:
        if task == 2:
            hands.set()
        return task

    results: list[int] = []
    with pytest.raises(MaintenanceStopped):
        results.extend(PacedRunner(run_in_process, Pace(0.5, hands, hands.clock()))(work, [1, 2, 3]))

    assert results == [1, 2]


def test_tasks_are_given_a_few_at_a_time() -> None:
    hands, waves = Hands(), []

    def run(function: Callable[[int], int], tasks: list[int]) -> list[int]:
        waves.append(list(tasks))
        return [function(task) for task in tasks]

    runner = PacedRunner(run, Pace(0.5, hands, hands.clock()), at_once=2)  # type: ignore[arg-type] # of one type of task

    assert list(runner(abs, [-1, -2, -3])) == [1, 2, 3]
    assert waves == [[-1, -2], [-3]]


def test_a_watcher_hears_how_many_tasks_there_are_and_of_each_that_is_done() -> None:
    heard: list[object] = []
    runner = WatchedRunner(run_in_process, heard.append, lambda: heard.append("done"))

    assert list(runner(abs, [-1, -2])) == [1, 2]
    assert heard == [2, "done", "done"]
