"""The catalog databases that there are: each is a record, and a folder of what only it needs."""

from __future__ import annotations

from collections.abc import Callable

from ducklake_core.catalog.dialect import CatalogDialect
from ducklake_core.errors import InvalidInput


def postgresql() -> CatalogDialect:
    from ducklake_core.catalog.postgres.dialect import POSTGRES  # noqa: PLC0415 # its driver takes time to import

    return POSTGRES


def sqlite() -> CatalogDialect:
    from ducklake_core.catalog.dbapi.sqlite import SQLITE  # noqa: PLC0415 # likewise

    return SQLITE


# By SQLAlchemy's names, which are those of the functions.
DIALECTS: dict[str, Callable[[], CatalogDialect]] = {one.__name__: one for one in (postgresql, sqlite)}


def dialect_named(name: str) -> CatalogDialect:
    """Return the record of a database by SQLAlchemy's name for it; raise InvalidInput for one that we do not know."""
    found = DIALECTS.get(name)
    if found is None:
        *most, last = (f"'{one}'" for one in sorted(DIALECTS))
        known = f"{', '.join(most)} and {last}"
        raise InvalidInput(f"catalog database '{name}' is not supported, only {known} are", backend=name)
    return found()
