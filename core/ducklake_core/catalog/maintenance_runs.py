"""What maintenance did and when: a table of ours in the catalog, which the reference ignores, for all who look.

One row for each table that a run has worked on, or one for the run. Only the newest are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Delete,
    Float,
    Insert,
    MetaData,
    Select,
    String,
    Table,
    bindparam,
    delete,
    insert,
    select,
)

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.catalog.stored_tables import create_missing, table_exists
from ducklake_core.spec.tables import ValueTypes

RUNS_KEPT = 1000


@dataclass(frozen=True, slots=True)
class MaintenanceRun:
    """What one run of an operation did to one table; `table_name` None: to the lake.

    `outcome` is `done`, `nothing` (there was nothing to do), `held back` or `failed`; `detail` says why, for people.
    The numbers are those of `ducklake_core.maintenance.report.Work`.
    """

    run_id: str
    operation: str
    table_name: str | None
    started_at: datetime
    seconds: float
    outcome: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    row_count: int
    snapshots: int
    detail: str | None


def record_runs(database: Database, runs: Sequence[MaintenanceRun]) -> None:
    """Write what one run did, and forget what is older than the newest runs."""
    table = _runs_table(database)
    database.write_alone("make a table for maintenance in", lambda session: create_missing(session, table))

    def record(session: Session) -> None:
        rows = [{name: getattr(run, name) for name in MaintenanceRun.__slots__} for run in runs]
        again = Statement(_delete_run(table), [{"key": key} for key in sorted({run.run_id for run in runs})])
        session.run([again, Statement(_insert(table), rows)])
        oldest = session.query(_select_oldest_kept(table), skipped=RUNS_KEPT - 1)
        prune = [Statement(_delete_before(table), {"oldest": time}) for [time] in oldest]
        session.write_and_commit(prune)

    database.write_alone("record maintenance in", record)


def read_runs(session: Session, limit: int) -> list[MaintenanceRun]:
    """Return the newest runs, newest first; none where there is no such table."""
    table = _runs_table(session.database)
    if not table_exists(session, table.name):
        return []
    return [MaintenanceRun(*row) for row in session.query(_select(table), row_limit=limit)]


def _runs_table(database: Database) -> Table:
    return _table(database.url.metadata_schema, database.dialect.values)


@cache
def _table(schema: str | None, values: ValueTypes) -> Table:
    numbers = ("files_before", "files_after", "bytes_before", "bytes_after", "row_count", "snapshots")
    return Table(
        "ducklake_streaming_maintenance",
        MetaData(schema=schema),
        Column("run_id", String, nullable=False),
        Column("operation", String, nullable=False),
        Column("table_name", String),
        Column("started_at", values.time, nullable=False),
        Column("seconds", Float(53), nullable=False),
        Column("outcome", String, nullable=False),
        *(Column(name, BigInteger, nullable=False) for name in numbers),
        Column("detail", String),
    )


@lru_cache(maxsize=64)
def _select(table: Table) -> Select[Any]:
    """The columns are the fields of a `MaintenanceRun`, in their order."""
    columns, order = (table.c[name] for name in MaintenanceRun.__slots__), (table.c.started_at.desc(), table.c.run_id)
    return select(*columns).order_by(*order, table.c.table_name).limit(bindparam("row_limit", type_=BigInteger))


@lru_cache(maxsize=64)
def _select_oldest_kept(table: Table) -> Select[Any]:
    skipped = bindparam("skipped", type_=BigInteger)
    return select(table.c.started_at).order_by(table.c.started_at.desc()).offset(skipped).limit(1)


@lru_cache(maxsize=64)
def _insert(table: Table) -> Insert:
    return insert(table)


@lru_cache(maxsize=64)
def _delete_run(table: Table) -> Delete:
    """A COMMIT of ours that got no answer may have landed: what it wrote is written again."""
    return delete(table).where(table.c.run_id == bindparam("key"))


@lru_cache(maxsize=64)
def _delete_before(table: Table) -> Delete:
    return delete(table).where(table.c.started_at < bindparam("oldest"))
