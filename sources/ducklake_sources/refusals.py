"""What `format("ducklake")` cannot do yet, with what to do instead. Runs in Python processes of the driver."""

from __future__ import annotations

from ducklake_core.errors import InvalidInput


def no_tables_of_spark() -> InvalidInput:
    """Return the error for CREATE TABLE … USING ducklake, and for reads of a table that was made so."""
    return InvalidInput(
        "CREATE TABLE … USING ducklake is not there yet: DuckLakeSink and Lake.create_table make tables. To read one:\n"
        "    CREATE TEMPORARY VIEW name USING ducklake OPTIONS (catalog '…', table '…')"
    )
