"""Exit codes of the command line, and how errors become a line and a code. Imports no Spark."""

from __future__ import annotations

from enum import IntEnum

import typer

from ducklake_core import errors
from ducklake_core.errors import DuckLakeError


class ExitCode(IntEnum):
    """How a command has ended, as a shell and a supervisor see it."""

    OK = 0
    FAILED = 1
    USAGE = 2  # or the configuration
    DATA_LOSS = 3  # data would be lost: snapshots or offsets that are needed have expired
    FENCED = 4  # another run has taken over the stream
    INTERRUPTED = 130  # by Ctrl-C, as a shell says it
    BROKEN_PIPE = 141  # nobody reads the output any more, likewise
    TERMINATED = 143  # by SIGTERM, likewise


class CommandError(Exception):
    """A command cannot do what it was told; its message is for the user."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


EXPECTED_ERRORS = (CommandError, DuckLakeError, OSError, typer.Abort, typer.TyperException)  # any other is a bug
_USAGE = (errors.CatalogError, errors.ObjectNotFound)  # what was named is not there


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the code that an error ends the command with: that of a job, where it is an error of the lake."""
    from ducklake_streaming.jobs import exit_codes  # noqa: PLC0415 # see the docstring of the package

    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, typer.TyperException):
        return ExitCode(error.exit_code)
    return ExitCode.USAGE if isinstance(error, _USAGE) else ExitCode(exit_codes.exit_code_of(error))


def message_of(error: BaseException) -> str:
    """Return what an error says; wrong usage names the help that tells the right one."""
    if isinstance(error, typer.Abort):
        return "nothing was done"
    if not isinstance(error, typer.TyperException):
        return str(error)
    context: typer.Context | None = getattr(error, "ctx", None)
    said = error.format_message().rstrip(".")
    return said if context is None else f"{said}; see '{context.command_path} --help'"
