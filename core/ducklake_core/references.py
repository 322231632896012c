"""Texts that name where a value is, in place of the value: `${env:NAME}` and `${file:/path}`; `$${` stands for `${`.

Runs on the driver, and in Python processes that Spark starts: what Spark is told, it shows in its UI, its plans and its
event log, so it is told where a password is and never the password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from ducklake_core.errors import InvalidInput

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
HELP = "write ${env:NAME} or ${file:/path}, and $${ where you mean ${ itself"


class ReferencedText(str):
    """A text with values that were referred to. Its repr is what was written; `portable` finds its files anywhere."""

    __slots__ = ("portable", "values", "written")
    written: str
    portable: str
    values: tuple[str, ...]

    def __new__(cls, text: str, written: str, portable: str, values: tuple[str, ...]) -> Self:
        made = super().__new__(cls, text)
        made.written, made.portable, made.values = written, portable, values
        return made

    def __repr__(self) -> str:
        return repr(self.written)

    def __reduce__(self) -> tuple[Any, ...]:  # Any: fixed by the pickle protocol
        return ReferencedText, (str(self), self.written, self.portable, self.values)


def resolve(text: str, environment: Mapping[str, str] = os.environ, folder: Path | None = None) -> str:
    """Return the text with the values that it refers to; raise InvalidInput that names every one that is missing.

    A text without references is returned as a plain one. `folder`: what paths of files are relative to.
    """
    values: list[str] = []
    problems: list[str] = []

    def replace(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return "${"
        try:
            values.append(_look_up(match, environment, folder or Path()))
        except InvalidInput as error:
            problems.append(str(error))
            return ""
        return values[-1]

    found = _REFERENCE.sub(replace, text)
    if problems:
        raise InvalidInput("; ".join(problems), problems=problems)
    return ReferencedText(found, text, _portable(text, folder or Path()), tuple(values)) if values else found


def portable(text: str) -> str:
    """Return what `resolve` makes this text of, wherever it is called, without the values that were referred to."""
    return text.portable if isinstance(text, ReferencedText) else text.replace("${", "$${")


def as_written(value: Any) -> Any:  # Any: the value of any setting
    """Return a value as its user wrote it, also where it is within others."""
    if isinstance(value, ReferencedText):
        return value.written
    if isinstance(value, Mapping):
        return {name: as_written(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(as_written(one) for one in value)
    return value


def _look_up(match: re.Match[str], environment: Mapping[str, str], folder: Path) -> str:
    kind, _, name = match.group(1).partition(":")
    if not match.group(2):
        raise InvalidInput(f"the reference {match.group()!r} has no end: {HELP}")
    if kind == "env" and name:
        if name not in environment:
            raise InvalidInput(f"there is no environment variable {name!r}")
        return environment[name]
    if kind == "file" and name:
        return _content(folder / name)
    raise InvalidInput(f"there is no reference {match.group()!r}: {HELP}")


def _content(file: Path) -> str:
    """Return a file's text without the end of its last line, which editors and `echo` add."""
    try:
        return file.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise InvalidInput(f"the file {str(file)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"the file {str(file)!r} is no text in UTF-8") from None


def _portable(text: str, folder: Path) -> str:
    """Return the text with the full paths of its files."""

    def replace(match: re.Match[str]) -> str:
        kind, _, name = (match.group(1) or "").partition(":")
        return f"${{file:{(folder / name).absolute()}}}" if kind == "file" else match.group()

    return _REFERENCE.sub(replace, text)
