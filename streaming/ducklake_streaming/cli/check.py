"""The command `check`: whether a job could run, part by part. It starts no Spark."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from ducklake_streaming.cli.errors import ExitCode
from ducklake_streaming.cli.output import json_line, make_screen
from ducklake_streaming.cli.run import JobFile
from ducklake_streaming.overview.fields import plain_text


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check")(check)


def check(
    file: JobFile,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Show one JSON object per line.")] = False,
) -> None:
    """Look whether a job could run: file, Java, jars, catalog, folders, topics, schema registry. It changes nothing.

    Each is a line: ok, or what is wrong and what helps. All are looked at, also when one is wrong.

    Exit codes: 0 all is well, 1 something is wrong, 2 the file is.

    Example: `ducklake-stream check job.toml`
    """
    from ducklake_core.errors import InvalidInput  # noqa: PLC0415 # see the docstring of the package
    from ducklake_streaming.jobs.checks import run_checks  # noqa: PLC0415 # likewise
    from ducklake_streaming.jobs.job_file import load_job  # noqa: PLC0415 # likewise

    try:
        loaded = load_job(file)
    except InvalidInput as error:
        for problem in error.problems:
            _show("file", problem, is_ok=False, as_json=as_json)
        raise typer.Exit(ExitCode.USAGE) from None
    failed = 0
    for result in run_checks(loaded):
        failed += not result.is_ok
        _show(result.name, result.text, is_ok=result.is_ok, as_json=as_json)
    raise typer.Exit(ExitCode.FAILED if failed else ExitCode.OK)


def _show(name: str, text: str, *, is_ok: bool, as_json: bool) -> None:
    if as_json:
        print(json_line({"check": name, "ok": is_ok, "text": text}), flush=True)
        return
    said = Text("ok     " if is_ok else "wrong  ", style="green" if is_ok else "bold red")
    lines = "\n       ".join(map(plain_text, text.splitlines()))
    make_screen().print(said.append(f"{name}: {lines}", style="not bold default"))
