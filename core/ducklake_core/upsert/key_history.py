"""The versions of one key's row over time (SCD type 2), after more changes. Pure; rows are numbers, times are ranks.

Which changes are known follows from the versions, each of which begins with one, and ends with the next or by a delete;
and from the hidden ones, which no version shows: a delete of nothing, and a change that leaves a version as it is. New
changes are put among these where their sequence says, and the versions follow anew. So they depend on the changes
alone, and not on the order or the batches in which these came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Change:
    """At `rank` of the sequence a key got the values of a row, or none (a delete).

    Rows have the same number where all their values are equal, and the same `look` where those are that are tracked.
    """

    rank: int
    row: int | None
    look: int = -1


@dataclass(frozen=True, slots=True)
class Version:
    """The values of a row hold in `[start, end)`; None: until now."""

    start: int
    end: int | None
    row: int
    look: int = -1


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """What becomes of the versions of one key: `updated` has pairs of the old and the new one.

    `hidden`: all changes that the versions do not show afterwards.
    """

    inserted: tuple[Version, ...] = ()
    updated: tuple[tuple[Version, Version], ...] = ()
    deleted: tuple[Version, ...] = ()
    hidden: tuple[Change, ...] = ()

    @property
    def changes_versions(self) -> bool:
        return bool(self.inserted or self.updated or self.deleted)


def plan_history(known: Sequence[Version], hidden: Iterable[Change], changes: Iterable[Change]) -> HistoryPlan:
    """Return how the versions of one key change. `hidden`: those of the plan before.

    Of changes with one rank the last wins, a new one over what is known.
    """
    points = {change.rank: change for change in _shown(known)}
    points |= {change.rank: change for change in hidden}
    points |= {change.rank: change for change in changes}
    versions = list(_versions([points[rank] for rank in sorted(points)]))
    shown = set(_shown(versions))
    left = tuple(points[rank] for rank in sorted(points) if points[rank] not in shown)
    return _difference(known, versions, left)


def _shown(versions: Sequence[Version]) -> Iterator[Change]:
    """Yield the changes that versions show: how each began, and deletes where none follows at once."""
    starts = {version.start for version in versions}
    for version in versions:
        yield Change(version.start, version.row, version.look)
        if version.end is not None and version.end not in starts:
            yield Change(version.end, None)


def _versions(changes: Sequence[Change]) -> Iterator[Version]:
    """Yield the versions; a change that looks as the version before it only brings that one's untracked values."""
    current: Version | None = None
    for change in changes:
        if change.row is not None and current is not None and current.look == change.look:
            current = replace(current, row=change.row)
            continue
        if current is not None:
            yield replace(current, end=change.rank)
        current = None if change.row is None else Version(change.rank, None, change.row, change.look)
    if current is not None:
        yield current


def _difference(known: Sequence[Version], wanted: Sequence[Version], hidden: tuple[Change, ...]) -> HistoryPlan:
    """Pair versions that start at the same time, then the others in their order."""
    by_start = {version.start: version for version in known}
    pairs = [(by_start[new.start], new) for new in wanted if new.start in by_start]
    paired = {new.start for _, new in pairs}
    old = sorted((version for version in known if version.start not in paired), key=lambda version: version.start)
    new = [version for version in wanted if version.start not in by_start]
    pairs += zip(old, new, strict=False)
    updated = tuple((before, after) for before, after in pairs if before != after)
    return HistoryPlan(tuple(new[len(old) :]), updated, tuple(old[len(new) :]), hidden)
