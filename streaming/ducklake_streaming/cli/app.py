"""All commands of `ducklake-stream` in one typer app, and `main`, which runs one and returns its exit code.

A module of commands has a function `register(app)` and is named in `COMMAND_MODULES`. A command that fails raises:
`main` writes the error to stderr and chooses the code (`errors.exit_code_of`). `typer.Exit(code)` ends it without a
word.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ducklake_streaming.cli import (
    changes,
    check,
    consumers,
    dead_letters,
    demo,
    doctor,
    flush,
    imports,
    maintain,
    offsets,
    read,
    run,
    snapshots,
    status,
    streams,
    tables,
)
from ducklake_streaming.cli.errors import EXPECTED_ERRORS, ExitCode, exit_code_of, message_of
from ducklake_streaming.cli.quick_start import leave_out_pandas

PROGRAM = "ducklake-stream"
COMMAND_MODULES = (  # in the order of the help
    demo,
    run,
    check,
    status,
    tables,
    snapshots,
    read,
    changes,
    streams,
    consumers,
    offsets,
    dead_letters,
    imports,
    flush,
    maintain,
    doctor,
)
_WITHOUT_SPARK = frozenset(
    {
        "changes",
        "consumers",
        "dead-letters",
        "doctor",
        "flush",
        "import",
        "maintain",
        "offsets",
        "read",
        "snapshots",
        "status",
        "streams",
        "tables",
    }
)


class Program(TyperGroup):
    """The group of all commands."""

    def invoke(self, ctx: Any) -> object:  # Any: the type of its context is typer's own
        """Run a command. Where nobody reads its output any more, as in `… | head`, it ends as `cat` does."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python writes when it ends
            raise typer.Exit(ExitCode.BROKEN_PIPE) from None
        return result


app = typer.Typer(
    cls=Program,
    help="Stream into and out of a DuckLake, and see what is in it.",
    epilog=f"Each command explains itself with an example: `{PROGRAM} COMMAND --help`.",
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,  # the traceback of a bug must not show the values of locals, such as passwords
    context_settings={"help_option_names": ["--help", "-h"]},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Without arguments it is that of the process."""
    if arguments is None and _needs_no_spark(sys.argv[1:]):
        leave_out_pandas()
    try:
        code = app(args=arguments, prog_name=PROGRAM, standalone_mode=False)
    except EXPECTED_ERRORS as error:
        print(f"{PROGRAM}: {message_of(error)}", file=sys.stderr)
        return exit_code_of(error)
    return int(code or ExitCode.OK)


def _needs_no_spark(arguments: Sequence[str]) -> bool:
    return bool(_WITHOUT_SPARK & set(arguments[:1])) and arguments[:2] != ["dead-letters", "replay"]


@app.callback(invoke_without_command=True)
def _program(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Show the version and end.")] = False,
) -> None:
    if version:
        from ducklake_core.version import package_version  # noqa: PLC0415 # it searches the installed packages

        print(PROGRAM, package_version())
    elif context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(ExitCode.USAGE)


for _module in COMMAND_MODULES:
    _module.register(app)
