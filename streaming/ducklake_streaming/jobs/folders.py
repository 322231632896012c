"""Local folders of a job, looked at without leaving anything. Runs on the driver."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from ducklake_core.errors import UnreadableFile, UnwritableFile

_REMOTE = re.compile(r"(?!file:)[a-zA-Z][a-zA-Z0-9+.-]+:/")


def is_local(path: str) -> bool:
    """Tell whether a path is in a file system of this machine."""
    return _REMOTE.match(path) is None


def check_folder(path: str) -> None:
    """Write a file without a name to a folder, or to the first one above it that is there. Raises UnwritableFile."""
    folder = _plain(path)
    there = next(one for one in (folder, *folder.parents) if one.exists())
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise UnwritableFile(
            f"'{folder}' cannot be written to: {error.strerror}: '{there}'; let this user write there, or name another "
            "folder"
        ) from error


def check_readable(path: str) -> str:
    """Return that something matches a path or a pattern; raise UnreadableFile where nothing does."""
    plain = _plain(path)
    if not any(Path(plain.anchor).glob(str(plain.relative_to(plain.anchor)))):
        raise UnreadableFile(f"there is no folder '{path}': create it, or mend 'path'")
    return f"{path} is there"


def _plain(path: str) -> Path:
    return Path(re.sub(r"^file:/+", "/", path)).absolute()
