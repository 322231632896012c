"""Where a catalog is: SQLAlchemy URLs and DuckDB's ATTACH strings become one value. No connection is made.

A secret in a URL never reaches a message: use `CatalogUrl.shown`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import Error as PsycopgError
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from ducklake_core.errors import InvalidInput

_HELP = (
    "use 'sqlite:///lake.sqlite', 'postgresql://user@host/database', 'ducklake:sqlite:lake.sqlite' "
    "or 'ducklake:postgres:dbname=lake host=db'"
)


@dataclass(frozen=True, slots=True)
class CatalogUrl:
    """A catalog database, and the database schema that holds the catalog's tables (None: the default one)."""

    url: URL
    metadata_schema: str | None = None

    @property
    def shown(self) -> str:
        """The URL as users write it, without its passwords and without the driver that we chose."""
        hidden = {key: "***" if "password" in key.lower() else value for key, value in self.url.query.items()}
        plain = self.url.set(drivername=self.url.get_backend_name(), query=hidden)
        return plain.render_as_string(hide_password=True)

    @classmethod
    def parse(cls, text: str, metadata_schema: str | None = None) -> CatalogUrl:
        """Accept a SQLAlchemy URL or DuckDB's ATTACH string, with or without its `ducklake:`."""
        url = _parse(text.removeprefix("ducklake:"))
        backend = url.get_backend_name()
        if backend == "sqlite":
            if metadata_schema is not None:
                raise InvalidInput("metadata_schema is for PostgreSQL catalogs only: a SQLite catalog has no schemas")
            return cls(_sqlite_url(url))
        if backend == "postgresql":
            if url.port is not None and not 0 < url.port < 65536:
                raise InvalidInput(f"the catalog's address has port {url.port}: ports are from 1 to 65535")
            return cls(url.set(drivername="postgresql+psycopg"), metadata_schema)
        raise InvalidInput(f"catalog database '{backend}' is not supported: {_HELP}", backend=backend)


def _parse(text: str) -> URL:
    kind, separator, rest = text.partition(":")
    if separator and kind == "sqlite" and not rest.startswith("//"):
        return URL.create("sqlite", database=rest)
    if separator and kind in ("postgres", "postgresql") and not rest.startswith("//"):
        if not rest.startswith(("postgres://", "postgresql://")):
            return _conninfo_url(rest)
        text = rest
    if text.startswith("postgres:"):
        text = text.replace("postgres:", "postgresql:", 1)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # the second for a port that is none; its message may hold a password
        raise InvalidInput(f"the catalog's address is neither a URL nor an ATTACH string: {_HELP}") from None
    if "@" in (url.host or ""):
        raise InvalidInput("the password in the catalog's address has an '@': write it as '%40'")
    return url


def _conninfo_url(conninfo: str) -> URL:
    try:
        facts = {key: str(value) for key, value in conninfo_to_dict(conninfo).items()}
    except PsycopgError:
        raise InvalidInput(f"the PostgreSQL part of the catalog's address cannot be read: {_HELP}") from None
    port = facts.pop("port", None)
    if port is not None and not port.isdecimal():
        raise InvalidInput(f"the PostgreSQL part of the catalog's address has a port that is no number: {_HELP}")
    return URL.create(
        "postgresql",
        username=facts.pop("user", None),
        password=facts.pop("password", None),
        host=facts.pop("host", None),
        port=int(port) if port else None,
        database=facts.pop("dbname", None),
        query=facts,
    )


def _sqlite_url(url: URL) -> URL:
    if url.host:
        raise InvalidInput(
            f"a SQLite catalog is a file, and '{url.host}' stands where a URL has its host: write three slashes before "
            "a relative path, four before an absolute one, as in 'sqlite:///lake.sqlite' and 'sqlite:////data/lake.sqlite'"
        )
    if not url.database or url.database == ":memory:":
        raise InvalidInput(
            "a lake needs a catalog that outlives the process: name a file, as in 'sqlite:///lake.sqlite'"
        )
    return url.set(drivername="sqlite+pysqlite", database=str(Path(url.database).absolute()))
