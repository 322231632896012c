"""What maintenance is asked to do, as a value that was checked. Pure; no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from ducklake_core.errors import InvalidInput
from ducklake_core.maintenance.ages import Age, age_of
from ducklake_core.maintenance.report import Operation
from ducklake_core.spec.names import nearest_name


@dataclass(frozen=True, slots=True)
class MaintenanceRequest:
    """The operations, in the order in which they are done, and what each is told; None is core's own default.

    `tables`: flush, merge and rewrite these only; the other operations are of the whole lake. `dry_run`: expire and
    clean up nothing, but tell what would go. Orphans are counted, and removed only by `delete_orphans`. `any_age`:
    files go however young they are, by cleanup and as orphans; `also_remove`: these, too, outside of the data path.
    `expire_all_others`: all but the newest `keep_last` expire where nothing tells an age; else none does.
    """

    operations: tuple[Operation, ...] = tuple(Operation)
    tables: tuple[str, ...] = ()
    expire_older_than: timedelta | None = None
    keep_last: int | None = None
    expire_all_others: bool = False
    versions: tuple[int, ...] = ()
    cleanup_older_than: timedelta | None = None
    orphans_older_than: timedelta | None = None
    delete_orphans: bool = False
    delete_threshold: float | None = None
    any_age: bool = False
    also_remove: tuple[str, ...] = ()
    dry_run: bool = False

    @classmethod
    def of(  # noqa: PLR0913 # each is a choice that users make, by name
        cls,
        *,
        operations: Iterable[str] | None = None,
        table: str | Sequence[str] | None = None,
        expire_older_than: Age | None = None,
        keep_last: int | None = None,
        expire_all_others: bool = False,
        versions: Iterable[int] = (),
        cleanup_older_than: Age | None = None,
        orphans_older_than: Age | None = None,
        delete_orphans: bool = False,
        delete_threshold: float | None = None,
        any_age: bool = False,
        also_remove: Iterable[str] = (),
        dry_run: bool = False,
    ) -> Self:
        """Return the request; raise InvalidInput for what nobody can do."""
        if keep_last is not None and keep_last < 1:
            raise InvalidInput(f"keep_last is {keep_last}, but the newest snapshot always stays: give 1 or more")
        if delete_threshold is not None and not 0 <= delete_threshold <= 1:
            raise InvalidInput(f"delete_threshold is {delete_threshold}, but must be a part of a file's rows: 0 to 1")
        if any_age and (cleanup_older_than is not None or orphans_older_than is not None):
            raise InvalidInput("--all takes files of every age: leave out either that or --older-than")
        return cls(
            operations=tuple(Operation) if operations is None else in_order(operations),
            tables=(table,) if isinstance(table, str) else tuple(table or ()),
            expire_older_than=_age("expire_older_than", expire_older_than),
            keep_last=keep_last,
            expire_all_others=expire_all_others,
            versions=tuple(versions),
            cleanup_older_than=_age("cleanup_older_than", cleanup_older_than),
            orphans_older_than=_age("orphans_older_than", orphans_older_than),
            delete_orphans=delete_orphans,
            delete_threshold=delete_threshold,
            any_age=any_age,
            also_remove=tuple(also_remove),
            dry_run=dry_run,
        )


def in_order(names: Iterable[str]) -> tuple[Operation, ...]:
    """Return the named operations, each once, in the order in which they are done."""
    asked = {_operation(name) for name in names}
    return tuple(one for one in Operation if one in asked)


def _operation(name: str) -> Operation:
    try:
        return Operation(name)
    except ValueError:
        near = nearest_name(name, list(Operation))
        hint = f"did you mean '{near}'?" if near else f"known are {', '.join(Operation)}"
        raise InvalidInput(f"there is no operation '{name}': {hint}") from None


def _age(name: str, value: Age | None) -> timedelta | None:
    return None if value is None else age_of(name, value)
