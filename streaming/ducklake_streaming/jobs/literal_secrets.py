"""Passwords that stand in a job file as they are, which are refused: files are copied, mailed and committed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote, urlsplit

from ducklake_core.references import ReferencedText
from ducklake_core.settings import catalog_password

REMEDY = "write it as ${env:NAME} or ${file:/path}"
_SECRET_NAME = re.compile(r"password|secret|^token$|ssl\.keystore\.key$", re.IGNORECASE)
_SECRET_PART = re.compile(r"""(?:password|secret)\s*=\s*["']?([^"'\s;]+)""", re.IGNORECASE)


def literal_password_of_catalog(address: str) -> str | None:
    """Return what is wrong with a catalog's address, if it holds a password."""
    password = catalog_password(address)
    return f"holds a password: {REMEDY}" if password and not _is_referenced(password, address) else None


def literal_password_of_url(url: str) -> str | None:
    password = urlsplit(url).password
    return f"holds a password: {REMEDY}" if password and not _is_referenced(password, url) else None


def literal_secrets(options: Mapping[str, object]) -> Iterator[str]:
    """Yield the names of options that hold a secret which is no reference."""
    for name, value in options.items():
        if not isinstance(value, str):
            continue
        parts = [value] if _SECRET_NAME.search(name) else _SECRET_PART.findall(value)
        if any(not _is_referenced(part, value) for part in parts):
            yield name


def _is_referenced(secret: str, text: str) -> bool:
    values = text.values if isinstance(text, ReferencedText) else ()
    return any(secret in value or secret in unquote(value) for value in values)
