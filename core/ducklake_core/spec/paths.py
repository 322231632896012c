"""How the format composes paths: plain concatenation, restarted by an absolute part (format §11)."""

from __future__ import annotations

import re
from uuid import UUID

_OTHER_NAMES = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names for its clients of one storage


def join_path(parent: str, path: str, *, is_relative: bool) -> str:
    """Return the full path of a part; directories end in a slash."""
    return parent + path if is_relative else path


def directory_name(name: str, uuid: UUID) -> str:
    """Return the directory of a schema or table: its name if that is plain, else its uuid."""
    return f"{name}/" if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f"{uuid}/"


def same_storage(path_or_url: str) -> str:
    """Return the URL by the storage's own name: `s3://…` for Hadoop's `s3a://…`."""
    scheme, separator, rest = path_or_url.partition("://")
    return f"{_OTHER_NAMES.get(scheme.lower(), scheme)}{separator}{rest}"


def hide_password(path_or_url: str) -> str:
    """Return a path or URL as it may be shown: without a user and a password before its host."""
    return re.sub(r"//[^/@]*@", "//***@", path_or_url)
