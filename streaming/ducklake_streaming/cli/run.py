"""The command `run`: a job file, from its start to its end. It starts Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ducklake_streaming.cli.errors import CommandError, ExitCode

JobFile = Annotated[Path, typer.Argument(help="The job file.", metavar="JOB.toml")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


def run(
    file: JobFile,
    *,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log all that happens, and errors with their stacks.")
    ] = False,
    log_file: Annotated[Path | None, typer.Option(help="A file for the same, whatever the terminal shows.")] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Serve metrics and probes here, whatever the file says.", metavar="HOST:PORT")
    ] = None,
) -> None:
    """Run the pipelines of a job file until they end, or until SIGTERM or Ctrl-C. It needs Java.

    The first signal ends it after the batches that run, a second one at once; either way each row is in the lake once.

    Exit codes: 0 ended as told, 1 failed, 2 the command or the file is wrong, 3 data would be lost, 4 another run has
    taken over the stream.

    Example: `ducklake-stream run job.toml`
    """
    from ducklake_core.errors import DuckLakeError  # noqa: PLC0415 # see the docstring of the package
    from ducklake_core.observe import LOG_RECORDER  # noqa: PLC0415 # likewise
    from ducklake_streaming.jobs.events import JobFailed  # noqa: PLC0415 # likewise
    from ducklake_streaming.jobs.exit_codes import exit_code_of, line_of_error  # noqa: PLC0415 # likewise
    from ducklake_streaming.jobs.job_file import load_job  # noqa: PLC0415 # likewise
    from ducklake_streaming.jobs.job_logs import start_logging  # noqa: PLC0415 # likewise
    from ducklake_streaming.jobs.runner import run_job  # noqa: PLC0415 # it imports Spark

    loaded = load_job(file).with_metrics_at(metrics)
    start_logging(loaded.redactor, loaded.job.log, verbose=verbose, log_file=log_file)
    try:
        code = run_job(loaded)
    except DuckLakeError as error:
        if loaded.job.log.format == "text":
            raise CommandError(loaded.redactor.redact(line_of_error(error)), ExitCode(exit_code_of(error))) from error
        code = exit_code_of(error)
        LOG_RECORDER.record(JobFailed(code, error))
    raise typer.Exit(code)
