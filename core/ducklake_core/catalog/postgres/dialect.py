"""PostgreSQL as a catalog database: its record."""

from __future__ import annotations

import math

from sqlalchemy import URL, Engine, String, bindparam, create_engine, text

from ducklake_core.catalog.dialect import CatalogDialect
from ducklake_core.catalog.postgres.connections import is_alive
from ducklake_core.catalog.postgres.errors import POSTGRES_ERRORS
from ducklake_core.catalog.postgres.inlined import PostgresInlinedStore
from ducklake_core.catalog.postgres.rules import POSTGRES_RULES
from ducklake_core.catalog.postgres.session import PostgresSession
from ducklake_core.catalog.postgres.statements import ids_in_json, unseen_snapshots, update_from_json
from ducklake_core.catalog.session import Session
from ducklake_core.errors import InvalidInput
from ducklake_core.spec.tables import NATIVE_VALUES

_MAX_CONNECT_SECONDS = 10.0
# A server that vanishes without a word is noticed within half a minute, not after hours.
_KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}

_OTHER_SCHEMAS = text(
    "SELECT schemaname::text FROM pg_tables WHERE tablename = 'ducklake_metadata'"
    " AND schemaname <> coalesce(CAST(:name AS text), current_schema()) ORDER BY 1"
).bindparams(bindparam("name", type_=String))


def _checked_url(url: URL) -> URL:
    if url.port is not None and not 0 < url.port < 65536:
        raise InvalidInput(f"the catalog's address has port {url.port}: ports are from 1 to 65535")
    return url.set(drivername="postgresql+psycopg")


def _open_engine(url: URL, lock_seconds: float, connect_seconds: float) -> Engine:  # noqa: ARG001 # see `wire`: it sets how long a lock is waited for
    # Texts are sent as UTF-8, whatever encoding the database has. What is prepared, and where, is for `wire`.
    arguments = {
        "application_name": "ducklake-streaming",
        "connect_timeout": math.ceil(min(_MAX_CONNECT_SECONDS, max(1.0, connect_seconds))),
        "client_encoding": "utf8",
        "prepare_threshold": None,
    }
    arguments |= {name: value for name, value in _KEEPALIVE.items() if name not in url.query}
    return create_engine(
        url, isolation_level="AUTOCOMMIT", connect_args=arguments, use_native_hstore=False, pool_reset_on_return=None
    )


def _other_catalogs(session: Session) -> list[tuple[URL, str | None]]:
    """Return the other schemas of the database that have a table as each lake has it."""
    url = session.database.url
    rows = session.query(_OTHER_SCHEMAS, name=url.metadata_schema)
    return [(url.url, schema) for [schema] in rows]


POSTGRES = CatalogDialect(
    name="postgresql",
    checked_url=_checked_url,
    is_file=False,
    has_schemas=True,
    open_engine=_open_engine,
    is_alive=is_alive,
    session=PostgresSession,
    # One consistent view of several catalog tables, and an error instead of a silently stale write.
    begin_write="BEGIN ISOLATION LEVEL REPEATABLE READ",
    begin_read="BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    concurrent_writers=True,
    errors=POSTGRES_ERRORS,
    values=NATIVE_VALUES,
    table_exists="SELECT to_regclass(:name) IS NOT NULL",
    other_catalogs=_other_catalogs,
    inlined_tables=(
        "SELECT tablename::text FROM pg_tables WHERE schemaname = coalesce(CAST(:name AS text), current_schema())"
        r" AND tablename LIKE 'ducklake\_inlined\_data\_%' ORDER BY 1"
    ),
    columns_like=(
        "SELECT t.relname::text, c.attname::text FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace"
        " JOIN pg_attribute c ON c.attrelid = t.oid AND c.attnum > 0 AND NOT c.attisdropped"
        " WHERE n.nspname = coalesce(CAST(:name AS text), current_schema()) AND t.relkind = 'r'"
        " AND t.relname LIKE CAST(:pattern AS text) ESCAPE '~' ORDER BY 1, c.attnum"
    ),
    size_bytes=(
        "SELECT coalesce(sum(pg_total_relation_size(t.oid)), 0)::bigint FROM pg_class t"
        " JOIN pg_namespace n ON n.oid = t.relnamespace"
        " WHERE n.nspname = coalesce(CAST(:name AS text), current_schema()) AND t.relkind = 'r'"
        r" AND t.relname LIKE 'ducklake\_%'"
    ),
    stored_columns=(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(:name) AND attnum > 0 ORDER BY attnum"
    ),
    update_many=update_from_json,
    ids_in_json=ids_in_json,
    inlined_rules=POSTGRES_RULES,
    inlined=PostgresInlinedStore(),
    unseen_snapshots=unseen_snapshots,
    # One that became the primary since refuses nothing, unless it is set to.
    is_standby="SELECT pg_is_in_recovery() OR NOT current_setting('default_transaction_read_only')::boolean",
)
