"""What a job file says of maintenance: when, what, and how much of the machine it may take. Runs on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, TypeAlias

from ducklake_core.maintenance.report import Operation
from ducklake_core.settings import Flag, OptionalCount, OptionalDuration, checked, optional, setting, table
from ducklake_core.spec.quantities import parse_duration
from ducklake_streaming.jobs.keys import Keys
from ducklake_streaming.jobs.values import one_of, parse_texts
from ducklake_streaming.maintenance.request import MaintenanceRequest

LEAST_SHARE = 0.01


def parse_every(value: object) -> timedelta:
    try:
        every = parse_duration(value)
    except ValueError:
        every = timedelta()
    if every < timedelta(seconds=1):
        raise ValueError("a time of at least a second, such as '15m'")
    return every


def parse_part(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError("a part of a file's rows, from 0 to 1, such as 0.5")
    return float(value)


def parse_share(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not LEAST_SHARE <= value <= 1:
        raise ValueError(f"a part of the time, from {LEAST_SHARE} to 1, such as 0.25")
    return float(value)


def parse_task_count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a number of tasks, 0 or more")
    return value


def parse_tables(value: object) -> tuple[str, ...]:
    return tuple(map(table, parse_texts(value)))


_NAMES = {"type": ["string", "array"], "items": {"type": "string", "minLength": 1}}
Every: TypeAlias = Annotated[timedelta, *checked(parse_every, {"type": ["number", "string"], "examples": ["15m"]})]
Tables: TypeAlias = Annotated[tuple[str, ...], *checked(parse_tables, _NAMES)]
Orphans: TypeAlias = Annotated[str, *one_of("count", "delete", "leave")]
OptionalPart: TypeAlias = Annotated[
    float | None, *checked(optional(parse_part), {"type": "number", "minimum": 0, "maximum": 1})
]
Share: TypeAlias = Annotated[float, *checked(parse_share, {"type": "number", "minimum": LEAST_SHARE, "maximum": 1})]
TaskCount: TypeAlias = Annotated[int, *checked(parse_task_count, {"type": "integer", "minimum": 0})]


class MaintenanceSettings(Keys):
    """`[maintenance]`: what keeps the lake fast while the job runs; without this table, nothing does."""

    every: Every = setting("how long to wait from one run to the next", default=timedelta(minutes=15), shown='`"15m"`')
    expire_older_than: OptionalDuration = setting(
        "snapshots older than this expire; default: the lake's option `expire_older_than`, and without that none do",
        default=None,
    )
    keep_last: OptionalCount = setting(
        "so many of the newest snapshots stay, however old; without an age all do", default=None
    )
    merge: Flag = setting("merge small files into large ones", default=True)
    rewrite: Flag = setting("write files with many deleted rows anew", default=True)
    delete_threshold: OptionalPart = setting(
        "the part of a file's rows that must be deleted for that; default: the option `rewrite_delete_threshold`, 0.95",
        default=None,
    )
    cleanup: Flag = setting("remove files that no snapshot needs any more", default=True)
    cleanup_older_than: OptionalDuration = setting(
        "how long ago that must be: longer than any batch or query, which may still read them; "
        "default: the option `delete_older_than`, 2 days",
        default=None,
    )
    orphans: Orphans = setting(
        'files that no snapshot ever named: "count" them, "delete" them, or "leave" them alone', default="count"
    )
    orphans_older_than: OptionalDuration = setting(
        "how old such a file must be; default: the option `delete_older_than`, 2 days", default=None
    )
    flush: Flag = setting(
        "flush all tables, too; sinks flush theirs by themselves, so this is for tables that others write",
        default=False,
    )
    tables: Tables = setting("flush, merge and rewrite only these; default: all", default=())
    share: Share = setting("the part of the time that it may work; for the rest it pauses", default=0.25)
    executor_tasks: TaskCount = setting(
        "how many tasks executors may do at a time when a table has 256 MiB or more to merge or rewrite; "
        "0: all is done in the driver's process",
        default=1,
    )

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: each is of its own type
        for key, part, off in _PARTS:
            if right.get(key) is not None and right.get(part) == off:
                shown = "false" if off is False else f'"{off}"'
                yield f"{key} says how, but {part} = {shown}: leave one of them out"

    def request(self) -> MaintenanceRequest:
        """Return what each run is to do."""
        is_on = {
            Operation.FLUSH: self.flush,
            Operation.EXPIRE: True,
            Operation.MERGE: self.merge,
            Operation.REWRITE: self.rewrite,
            Operation.CLEANUP: self.cleanup,
            Operation.ORPHANS: self.orphans != "leave",
        }
        return MaintenanceRequest(
            operations=tuple(one for one in Operation if is_on[one]),
            tables=self.tables,
            expire_older_than=self.expire_older_than,
            keep_last=self.keep_last,
            cleanup_older_than=self.cleanup_older_than,
            orphans_older_than=self.orphans_older_than,
            delete_orphans=self.orphans == "delete",
            delete_threshold=self.delete_threshold,
        )


# A key that says how a part is done, and what switches that part off.
_PARTS: tuple[tuple[str, str, object], ...] = (
    ("delete_threshold", "rewrite", False),
    ("cleanup_older_than", "cleanup", False),
    ("orphans_older_than", "orphans", "leave"),
)
