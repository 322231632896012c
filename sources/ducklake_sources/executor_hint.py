"""What helps when a task cannot ask the catalog. Runs on executors."""

from __future__ import annotations

from ducklake_core.errors import CatalogForbidden, CatalogUnavailable, DuckLakeError


def executor_hint(error: DuckLakeError) -> str:
    """Return why a task asked the catalog at all, and how it need not; nothing for errors of another kind.

    Only inlined rows that are too many to travel with the task are read from the catalog by executors.
    """
    if not isinstance(error, CatalogUnavailable | CatalogForbidden):
        return ""
    return (
        "; so many rows are inlined that each executor reads its own from the catalog: flush the table, or let "
        "executors reach the catalog and give them its password (spark.executorEnv.PGPASSFILE)"
    )
