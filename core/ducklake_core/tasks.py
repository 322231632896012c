"""Work that may be done elsewhere: a function and tasks. Whoever has other machines brings a runner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Runner(Protocol):
    """Does tasks, here or elsewhere, and gives their results in the order of the tasks. Both pickle."""

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterable[Result]: ...
