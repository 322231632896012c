"""What tables of inlined rows are in PostgreSQL: declared types, names and limits. Pure."""

from __future__ import annotations

from ducklake_core.spec.inlined import InlinedRules, RowLimit

# https://www.postgresql.org/docs/current/limits.html: 1,600 columns, three of which are ours, and a row must fit on a
# page when all of its values that can be moved out of it are: 8,160 bytes, with a head of 24 and a bit for each column.
_ROW_LIMIT = RowLimit(
    max_bytes=8160,
    head_bytes=24,
    widths={
        **dict.fromkeys(("BIGINT", "DOUBLE PRECISION", "TIME"), 8),
        **dict.fromkeys(("INTEGER", "REAL"), 4),
        **dict.fromkeys(("UUID", "INTERVAL"), 16),
        "SMALLINT": 2,
        "BOOLEAN": 1,
        "TIME WITH TIME ZONE": 12,
    },
)

POSTGRES_RULES = InlinedRules(
    database="PostgreSQL",
    types={
        "boolean": "BOOLEAN",
        "int8": "SMALLINT",
        "int16": "SMALLINT",
        "int32": "INTEGER",
        "int64": "BIGINT",
        "uint8": "INTEGER",
        "uint16": "INTEGER",
        "uint32": "BIGINT",
        "float32": "REAL",
        "float64": "DOUBLE PRECISION",
        "time": "TIME",
        "timetz": "TIME WITH TIME ZONE",
        "interval": "INTERVAL",
        # Bytes, since a text of PostgreSQL cannot hold the character NUL.
        "varchar": "BYTEA",
        "json": "BYTEA",
        "blob": "BYTEA",
        "uuid": "UUID",
    },
    decimal="DECIMAL({},{})",
    max_columns=1600 - 3,
    unsupported_types=frozenset({"time_ns"}),
    # https://www.postgresql.org/docs/current/ddl-system-columns.html: no table can have a column of these names.
    system_names=frozenset(("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")),
    max_name_bytes=63,  # NAMEDATALEN - 1
    row_limit=_ROW_LIMIT,
    takes_nul=False,
)
