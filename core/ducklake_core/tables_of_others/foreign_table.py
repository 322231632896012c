"""A table of another format, as far as a lake needs to know it: columns, partitions and live files. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """A live data file. `partition_values`: by column, as the other format tells them; `record_count` None: untold.

    `own_ids`: ids of the columns whose values must be in the file itself, since nothing else tells them here.
    """

    path: str
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    record_count: int | None = None
    own_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A table at one version. `columns`: DuckLake's type texts by name; `required`: those that forbid nulls.

    `field_ids`: of columns and what is below them by their paths, where files have such ids; `ids_by_name`: what they
    are in files that have none.
    """

    version: int
    columns: Mapping[str, str]
    required: frozenset[str]
    partition_by: tuple[str, ...]
    files: tuple[ForeignFile, ...]
    field_ids: Mapping[str, int] = field(default_factory=dict)
    ids_by_name: Mapping[str, int] = field(default_factory=dict)
