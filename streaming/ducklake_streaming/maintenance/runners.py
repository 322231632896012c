"""Who does the tasks of a merge or a rewrite: runners around core's own, which does them in this process. No Spark.

A runner takes a function and tasks, which pickle, and yields what the function made of each, in order. What it yields
is taken before the next is asked for, so that no file is forgotten that a result names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ducklake_core.maintenance.compaction import run_in_process as run_in_process  # noqa: PLC0414 # declared there, used with these
from ducklake_core.tasks import Runner
from ducklake_streaming.maintenance.pace import Pace

T = TypeVar("T")
R = TypeVar("R")

LARGE_BYTES = 256 * 2**20  # of a table's files to merge or rewrite: so many are left to executors where there are any


class PacedRunner:
    """Lets another runner do a few tasks at a time, and rests after each of these times.

    Whoever stops the pace ends it there: `MaintenanceStopped` comes out of it in place of the next result.
    """

    def __init__(self, runner: Runner, pace: Pace, at_once: int = 1) -> None:
        self._runner = runner
        self._pace = pace
        self._at_once = at_once

    def __call__(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        for first in range(0, len(tasks), self._at_once):
            self._pace.check()
            yield from self._runner(function, tasks[first : first + self._at_once])
            self._pace.rest()


class WatchedRunner:
    """Tells how many tasks there are, and when one is done."""

    def __init__(self, runner: Runner, expect: Callable[[int], None], advance: Callable[[], None]) -> None:
        self._runner = runner
        self._expect = expect
        self._advance = advance

    def __call__(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        self._expect(len(tasks))
        for result in self._runner(function, tasks):
            self._advance()
            yield result
