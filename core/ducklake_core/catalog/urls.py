"""Where a catalog is: SQLAlchemy URLs and DuckDB's ATTACH strings become one value. No connection is made.

A secret in a URL never reaches a message: use `CatalogUrl.shown`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from ducklake_core.catalog.dialect import CatalogDialect
from ducklake_core.catalog.dialects import dialect_named
from ducklake_core.errors import InvalidInput
from ducklake_core.references import ReferencedText, resolve

_HELP = (
    "use 'sqlite:///lake.sqlite', 'postgresql://user@host/database', 'ducklake:sqlite:lake.sqlite' "
    "or 'ducklake:postgres:dbname=lake host=db'"
)


@dataclass(frozen=True)
class CatalogUrl:
    """A catalog database, and the database schema that holds the catalog's tables (None: the default one).

    `source` is the address with a reference to a file in place of a password, where it was given so.
    """

    url: URL
    metadata_schema: str | None = None
    source: str | None = field(default=None, repr=False, compare=False)

    @cached_property
    def shown(self) -> str:
        """The URL as users write it, without its passwords and without the driver that we chose."""
        hidden = {key: "***" if "password" in key.lower() else value for key, value in self.url.query.items()}
        plain = self.url.set(drivername=self.url.get_backend_name(), query=hidden)
        return plain.render_as_string(hide_password=True)

    @classmethod
    def parse(cls, text: str, metadata_schema: str | None = None) -> CatalogUrl:
        """Accept a SQLAlchemy URL or DuckDB's ATTACH string, with or without its `ducklake:`."""
        url = _parse(text.removeprefix("ducklake:"))
        dialect = _dialect_of(url)
        if metadata_schema is not None and not dialect.has_schemas:
            database = dialect.inlined_rules.database
            raise InvalidInput(f"metadata_schema is for PostgreSQL catalogs only: a {database} catalog has no schemas")
        source = text.portable if isinstance(text, ReferencedText) and "${file:" in text.portable else None
        return cls(dialect.checked_url(url), metadata_schema, source)

    def reread(self) -> CatalogUrl:
        """Return the address as the files have it now that it refers to; as it was, where one cannot be read."""
        if self.source is None:
            return self
        try:
            found = CatalogUrl.parse(resolve(self.source), self.metadata_schema)
        except InvalidInput:
            return self  # a file that is just being replaced, or an executor that has none
        return replace(found, source=self.source)


def address_in(text: str, folder: Path) -> str:
    """Return a catalog's address; that of a file with its full path, where it is relative to the folder."""
    url = _parse(text.removeprefix("ducklake:"))
    file = url.database
    if url.get_backend_name() != "sqlite" or not file or file.startswith((":", "file:")) or Path(file).is_absolute():
        return text
    return url.set(database=str(folder / file)).render_as_string(hide_password=False)


def _dialect_of(url: URL) -> CatalogDialect:
    try:
        return dialect_named(url.get_backend_name())
    except InvalidInput as error:
        raise InvalidInput(f"{error.message}: {_HELP}", **error.facts) from None


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
    from psycopg import Error as PsycopgError  # noqa: PLC0415 # the driver takes time to import, and few need it here
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 # likewise

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
