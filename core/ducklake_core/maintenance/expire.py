"""Expires snapshots, and reclaims what they alone needed in the catalog. Their files go by the clean-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ducklake_core import faults
from ducklake_core.catalog.expiry import Expired, expire
from ducklake_core.catalog.inlined_cleanup import DEFAULT_KEEP, drop_superseded
from ducklake_core.catalog.inlined_leftovers import reclaim_inlined
from ducklake_core.errors import CatalogForbidden, InvalidInput
from ducklake_core.log_lines import one_line
from ducklake_core.maintenance.ages import Age, age_of, option_age
from ducklake_core.maintenance.report import Work
from ducklake_core.maintenance.run import Done, Maintained
from ducklake_core.model import SnapshotId
from ducklake_core.plan.expiry import Wanted


def expire_snapshots(lake: Maintained, wanted: Wanted, *, dry_run: bool) -> Done:
    """Expire what is wanted, chunk by chunk; then reclaim tables and rows of inlined data that nobody needs."""
    done: list[Expired] = []
    while not done or not done[-1].is_all:
        now = lake.clock.now()
        done.append(expire(lake.database, replace(wanted, is_checked=bool(done)), now, dry_run=dry_run))
        faults.at("after_expiry_chunk")
    skipped = None if dry_run else _reclaim(lake)
    ids = tuple(i for one in done for i in one.snapshot_ids)
    files, size = sum(one.files.files for one in done), sum(one.files.size_bytes for one in done)
    work = Work(files_before=files, bytes_before=size, snapshots=len(ids), skipped=skipped)
    return Done((work,), held_back=done[-1].held_back, snapshot_ids=ids)


def _reclaim(lake: Maintained) -> str | None:
    """Tidy up. Snapshots have expired: that a later run has to do this must not look as if it had failed."""
    try:
        reclaim_inlined(lake.database)
        drop_superseded(lake.database, DEFAULT_KEEP, lake.clock.now())
    except CatalogForbidden as error:  # of a role that does not own the tables
        return f"tables of inlined rows that nobody needs are left: {one_line(error)}"
    return None


def wanted_of(
    lake: Maintained, older_than: Age | None, keep_last: int | None, versions: Sequence[int] | None
) -> Wanted:
    """Return what the arguments ask for, and the lake's option where none tells an age. Raises InvalidInput."""
    if versions is not None:
        if older_than is not None or keep_last is not None:
            raise InvalidInput("versions are expired by themselves: give neither older_than nor keep_last with them")
        return Wanted(versions=tuple(SnapshotId(version) for version in versions))
    if keep_last is not None and keep_last < 1:
        raise InvalidInput(f"keep_last is {keep_last}, but must be 1 or more: the newest snapshot never expires")
    age = age_of("older_than", older_than) if older_than is not None else option_age(lake, "expire_older_than")
    return Wanted(None if age is None else lake.clock.now() - age, keep_last)
