"""Warns of partitions that repeat: `day(ts)` alone is the day of the month, not a date. Runs on the driver."""

from __future__ import annotations

from functools import cache

from ducklake_core.file_events import PartitionRepeats
from ducklake_core.model import TableVersion
from ducklake_core.observe import LOG_RECORDER
from ducklake_core.spec.partition import CALENDAR_PARTS, missing_parts


def warn_of_repeats(table: TableVersion) -> None:
    """Say once per process, table and key that rows of different years, months or days will share a partition."""
    if table.partitioning is None:
        return
    columns = {column.column_id: column for column in table.columns}
    keys = [(columns[key.column_id], key.transform) for key in table.partitioning.keys]
    for (name, part), missing in missing_parts(keys).items():
        _warn(table.qualified_name, name, part, missing)


@cache  # so that the same thing is said once
def _warn(table: str, column: str, part: str, missing: tuple[str, ...]) -> None:
    coarser = CALENDAR_PARTS[CALENDAR_PARTS.index(part) - 1]
    instead = {"month": f"year({column}), month({column})", "day": f"date({column})"}
    event = PartitionRepeats(
        table,
        expression=f"{part}({column})",
        missing=", ".join(f"{one}({column})" for one in missing),
        reason=f"{part}({column}) is the {part} of the {coarser}, so different {missing[-1]}s share a partition",
        instead=instead.get(part, f"date({column}), hour({column})"),
    )
    LOG_RECORDER.record(event)
