"""How the format composes paths: plain concatenation, restarted by an absolute part (format §11)."""

from __future__ import annotations

import re
from uuid import UUID


def join_path(parent: str, path: str, *, is_relative: bool) -> str:
    """Return the full path of a part; directories end in a slash."""
    return parent + path if is_relative else path


def directory_name(name: str, uuid: UUID) -> str:
    """Return the directory of a schema or table: its name if that is plain, else its uuid."""
    return f"{name}/" if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f"{uuid}/"
