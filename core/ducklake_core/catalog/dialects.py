"""What differs between catalog databases, as data: one frozen record per database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ducklake_core.catalog.dbapi.sqlite_rules import SQLITE_RULES
from ducklake_core.catalog.postgres.rules import POSTGRES_RULES
from ducklake_core.errors import InvalidInput
from ducklake_core.spec.inlined import InlinedRules
from ducklake_core.spec.tables import NATIVE_VALUES, PLAIN_VALUES, ValueTypes


@dataclass(frozen=True, slots=True, eq=False)
class CatalogDialect:
    """The traits of one catalog database. What its errors mean is in `driver_errors`."""

    name: str
    begin_write: str
    begin_read: str
    table_exists: str  # SQL that answers for the name bound as `name`
    inlined_tables: str  # SQL that lists the tables of inlined rows in the schema bound as `name`; None: the usual one
    stored_columns: str | None  # SQL that lists the columns of the table bound as `name`; None: names are never changed
    has_pipeline: bool  # several statements travel in one round trip
    values: ValueTypes  # of the catalog's tables
    inlined_rules: InlinedRules


DIALECTS: Mapping[str, CatalogDialect] = {
    "postgresql": CatalogDialect(
        name="postgresql",
        # One consistent view of several catalog tables, and an error instead of a silently stale write.
        begin_write="BEGIN ISOLATION LEVEL REPEATABLE READ",
        begin_read="BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        table_exists="SELECT to_regclass(:name) IS NOT NULL",
        inlined_tables=(
            "SELECT tablename::text FROM pg_tables WHERE schemaname = coalesce(CAST(:name AS text), current_schema())"
            r" AND tablename LIKE 'ducklake\_inlined\_data\_%' ORDER BY 1"
        ),
        stored_columns=(
            "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(:name) AND attnum > 0 ORDER BY attnum"
        ),
        has_pipeline=True,
        values=NATIVE_VALUES,
        inlined_rules=POSTGRES_RULES,
    ),
    "sqlite": CatalogDialect(
        name="sqlite",
        # Take the write lock before reading the head: a lock upgrade would deadlock with another writer.
        begin_write="BEGIN IMMEDIATE",
        begin_read="BEGIN",
        table_exists="SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = :name",
        inlined_tables=(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND coalesce(:name, 'main') = 'main'"
            " AND name LIKE 'ducklake~_inlined~_data~_%' ESCAPE '~' ORDER BY 1"
        ),
        stored_columns=None,
        has_pipeline=False,
        values=PLAIN_VALUES,
        inlined_rules=SQLITE_RULES,
    ),
}


def dialect_named(name: str) -> CatalogDialect:
    """Return the record of a database by SQLAlchemy's name for it; raise InvalidInput for one that we do not know."""
    found = DIALECTS.get(name)
    if found is None:
        known = ", ".join(f"'{one}'" for one in DIALECTS)
        raise InvalidInput(f"catalog database '{name}' is not supported; supported are {known}", backend=name)
    return found
