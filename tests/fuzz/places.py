"""Where walks take place: a new catalog for each, and the DuckDB sessions that look on."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fixtures.catalogs import Catalog, PostgresCatalog, SqliteCatalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.postgres import PostgresDatabase, PostgresServer


class Sessions:
    """Two DuckDB processes for all walks: one stays attached during a walk, one is attached anew for each look."""

    def __init__(self) -> None:
        self.opened = Oracle()
        self.fresh = Oracle()
        self._attached = False

    def renew(self, catalog: Catalog) -> None:
        if self._attached:
            self.fresh.detach()
        self.fresh.attach(catalog.attach)
        self._attached = True

    def reset(self) -> None:
        """End the sessions of a walk; a broken process is replaced."""
        for name in ("opened", "fresh"):
            oracle: Oracle = getattr(self, name)
            try:
                oracle.execute("USE memory; DETACH lake")
            except Exception:  # noqa: BLE001 # whatever it was, a new process is as good
                oracle.close()
                setattr(self, name, Oracle())
        self._attached = False

    def close(self) -> None:
        self.opened.close()
        self.fresh.close()


@contextmanager
def sqlite_catalogs(directory: Path) -> Iterator[Callable[[], Catalog]]:
    def make() -> Catalog:
        place = Path(tempfile.mkdtemp(dir=directory))
        return SqliteCatalog(place / "lake.sqlite", f"{place}/data/")

    yield make


@contextmanager
def postgres_catalogs(directory: Path, server: PostgresServer) -> Iterator[Callable[[], Catalog]]:
    databases: list[PostgresDatabase] = []

    def make() -> Catalog:
        databases.append(server.create_database())
        place = Path(tempfile.mkdtemp(dir=directory))
        return PostgresCatalog(databases[-1], f"{place}/data/")

    yield make
    for database in databases:
        server.drop_database(database)
