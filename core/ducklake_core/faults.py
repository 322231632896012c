"""Named points where tests make a process die, fail or wait. Costs one dictionary look-up when unused."""

from __future__ import annotations

from collections.abc import Callable

_points: dict[str, Callable[[], None]] = {}


def at(point: str) -> None:
    """Do what a test asked for at this point; by default nothing."""
    action = _points.get(point)
    if action is not None:
        action()


def inject(point: str, action: Callable[[], None] | None) -> None:
    """Set the action of a point, or remove it with None. For tests only."""
    if action is None:
        _points.pop(point, None)
    else:
        _points[point] = action
