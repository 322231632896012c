"""Names of things in text: `schema.table`, `column.field`, quoted as in SQL. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase

from ducklake_core.errors import InvalidInput


def split_path(text: str) -> list[str]:
    """Split a dotted path into its parts; a part in double quotes may hold dots, and quotes doubled."""
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise InvalidInput(f"'{text}' is not a name: write parts separated by dots, quoting odd ones as in \"a.b\"")
        quoted, plain = match.groups()
        parts.append(plain if quoted is None else quoted[1:-1].replace('""', '"'))
        position = match.end()
        if position == len(text):
            return parts
        position += 1


_PART = re.compile(r'(?:("(?:[^"]|"")+")|([^."]+))(?=\.|$)', re.DOTALL)


def split_table_name(text: str) -> tuple[str, str]:
    """Split `schema.table`; a lone table name is in schema `main`."""
    parts = split_path(text)
    if len(parts) > 2:
        raise InvalidInput(f"'{text}' is not a table's name: write 'table' or 'schema.table', quoting odd parts")
    return (parts[0], parts[1]) if len(parts) == 2 else ("main", parts[0])


@lru_cache(maxsize=4096)
def table_key(text: str) -> tuple[str, str]:
    """Return what all texts share that name the same table: its schema and its name, as names are compared."""
    schema, table = split_table_name(text)
    return fold(schema), fold(table)


def join_table_name(schema: str, table: str) -> str:
    """Return `schema.table` with odd parts quoted, which `split_table_name` takes apart again."""
    return ".".join(part if _PART.fullmatch(part) else quoted(part) for part in (schema, table))


def quoted(*parts: str) -> str:
    """Return the parts of a name, each in quotes, separated by dots; which `split_path` takes apart again."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def fold(name: str) -> str:
    """Return what two names share that DuckDB takes for one: only ASCII letters are equal regardless of case."""
    return name.translate(_LOWER)


_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def quote_name(name: str) -> str:
    """Quote a name where DuckDB would: unless it is plain and in lower case."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else quoted(name)


def check_name(name: str, noun: str) -> None:
    """Refuse what no catalog can hold as the name of a schema or table."""
    if not name or not is_storable(name):
        raise InvalidInput(
            f"{name!r} cannot be the name of a {noun}: it is empty, has a NUL character or is no Unicode", name=name
        )


def is_storable(text: str) -> bool:
    """Tell whether every catalog can hold a text: it has no NUL, and no half of a character (a lone surrogate)."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant; None when none is near enough to be proposed.

    Of a short name a slip of the hand takes a larger share.
    """
    cutoff = 0.6 if len(name) <= 5 else 0.78
    return next(iter(get_close_matches(name, list(names), n=1, cutoff=cutoff)), None)
