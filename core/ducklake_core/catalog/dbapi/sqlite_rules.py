"""What tables of inlined rows are in SQLite: declared types and limits. Pure."""

from __future__ import annotations

from ducklake_core.spec.inlined import InlinedRules

SQLITE_RULES = InlinedRules(
    database="SQLite",
    types={
        **dict.fromkeys(("boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"), "BIGINT"),
        "blob": "BLOB",
    },
    # https://www.sqlite.org/limits.html: 2,000 of a table, and of a result, which has one more where rows are read.
    max_columns=2000 - 4,
)
