"""What is done to the files of a table: which of them are written anew, and how the commit tells it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from ducklake_core.catalog.compaction_reader import TableFiles
from ducklake_core.maintenance.report import Operation
from ducklake_core.model import Snapshot, TableVersion
from ducklake_core.plan.file_groups import FileGroup, MergeLimits, plan_merge, plan_rewrite
from ducklake_core.spec.changes import ChangeKind
from ducklake_core.spec.options import TableOptions


@dataclass(frozen=True, slots=True)
class TableAt:
    """A table as a snapshot has it, with the options in force."""

    base: Snapshot
    table: TableVersion
    options: TableOptions


@dataclass(frozen=True, slots=True)
class Merge:
    """Small files become large ones."""

    operation: ClassVar = Operation.MERGE
    kind: ClassVar = ChangeKind.MERGE_ADJACENT
    keeps_snapshots: ClassVar = True
    min_file_bytes: int = 0
    max_file_bytes: int | None = None
    max_groups: int | None = None

    def plan(self, found: TableFiles, options: TableOptions) -> tuple[FileGroup, ...]:
        target = options.files.target_file_bytes
        limits = MergeLimits(target, self.min_file_bytes, self.max_file_bytes, self.max_groups)
        return plan_merge(found.files, found.versions, limits)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files with many deleted rows are written without them. `threshold` None: as the table's option says."""

    operation: ClassVar = Operation.REWRITE
    kind: ClassVar = ChangeKind.REWRITE_DELETE
    keeps_snapshots: ClassVar = False
    threshold: float | None = None

    def plan(self, found: TableFiles, options: TableOptions) -> tuple[FileGroup, ...]:
        threshold = options.rewrite_delete_threshold if self.threshold is None else self.threshold
        target = options.files.target_file_bytes
        return plan_rewrite(found.files, found.versions, target, threshold, with_crowds=self.threshold is None)


Method: TypeAlias = Merge | Rewrite
