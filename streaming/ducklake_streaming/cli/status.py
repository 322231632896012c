"""The command `status`: the screen that an operator opens first. It needs no Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command, is_on_command_line
from ducklake_streaming.cli.output import facts_table, json_line, make_screen, make_table
from ducklake_streaming.overview.lake_state import LAG_FIELDS, LAKE_FIELDS, LakeState, Section, json_rows, read_state

if TYPE_CHECKING:
    from ducklake_core import Lake
    from ducklake_streaming.jobs.job_file import LoadedJob


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_lake_command(app, "status", status)


def status(
    access: LakeAccess,
    context: typer.Context,
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it anew until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds from one look to the next, with --watch.")] = 2.0,
    small_file: Annotated[str, typer.Option(help="Files below this are small.")] = "16MB",
    job: Annotated[
        Path | None,
        typer.Option(help="A job file: the lake is its lake; lag in Kafka and what its process does are shown."),
    ] = None,
) -> None:
    """Show what a lake holds and what its streams do: last batches, inlined rows, files, snapshots, who is behind.

    It only reads: a role that may not write can ask. Ctrl-C ends --watch with code 130.

    Example: `ducklake-stream status --watch`
    """
    small_bytes = _size(small_file)
    loaded = None if job is None else _load(job)
    named = access if loaded is None or is_on_command_line(context, "catalog") else _lake_of(loaded, access)
    with named.lake() as lake:

        def look() -> LakeState:
            return _read(lake, small_bytes, loaded, access.clock.now())

        def wait() -> None:
            access.clock.sleep(interval)

        if not watch:
            _show(look(), as_json=access.output.as_json)
        elif access.output.as_json or not sys.stdout.isatty():
            while True:
                _show(look(), as_json=access.output.as_json)
                sys.stdout.flush()
                wait()
        else:
            _watch(look, wait)


def _read(lake: Lake, small_bytes: int, loaded: LoadedJob | None, now: datetime) -> LakeState:
    state = read_state(lake, small_bytes, now)
    if loaded is None:
        return state
    from ducklake_streaming.cli.job_lag import lag_rows  # noqa: PLC0415 # it imports a client of Kafka

    rows = list(lag_rows(loaded, state.streams, _ASK_KAFKA_SECONDS))
    lag = Section("lag", "Behind Kafka, in records", LAG_FIELDS, rows, "no pipeline reads Kafka")
    return replace(state, sections=(*_of_the_run(loaded), state.sections[0], lag, *state.sections[1:]))


def _of_the_run(loaded: LoadedJob) -> Sequence[Section]:
    """Return what the job's process tells, if it serves metrics."""
    from ducklake_streaming.cli.job_run import run_sections  # noqa: PLC0415 # for jobs only

    metrics = loaded.job.metrics
    return () if metrics is None else run_sections(metrics, _ASK_PROCESS_SECONDS)


_ASK_KAFKA_SECONDS, _ASK_PROCESS_SECONDS = 5.0, 2.0


def _watch(look: Callable[[], LakeState], wait: Callable[[], None]) -> None:
    """Show the state again and again in one place; a catalog that is away is said there, too."""
    from rich.live import Live  # noqa: PLC0415 # see the docstring of the package

    from ducklake_core.errors import CatalogUnavailable  # noqa: PLC0415 # likewise

    with Live(console=make_screen(), screen=True, auto_refresh=False) as live:
        while True:
            try:
                shown = _rendered(look())
            except CatalogUnavailable as error:
                shown = Text(str(error), style="red")
            live.update(shown, refresh=True)
            wait()


def _show(state: LakeState, *, as_json: bool) -> None:
    if as_json:
        for row in json_rows(state):
            print(json_line(row))
    else:
        make_screen().print(_rendered(state))


def _rendered(state: LakeState) -> RenderableType:
    parts: list[RenderableType] = [facts_table(LAKE_FIELDS, state.lake)]
    for section in state.sections:
        parts += ["", Text(section.title, style="bold cyan")]
        parts.append(make_table(section.fields, section.rows) if section.rows else Text(section.empty, style="dim"))
    return Group(*parts)


def _size(text: str) -> int:
    from ducklake_core.spec.quantities import parse_size  # noqa: PLC0415 # see the docstring of the package

    try:
        return parse_size(text)
    except ValueError as error:
        raise typer.BadParameter(f"'{text}' is not {error}", param_hint="--small-file") from None


def _load(job: Path) -> LoadedJob:
    from ducklake_streaming.jobs.job_file import load_job  # noqa: PLC0415 # see the docstring of the package

    return load_job(job)


def _lake_of(loaded: LoadedJob, access: LakeAccess) -> LakeAccess:
    """Return the lake of a job file."""
    catalog = loaded.job.catalog
    return replace(
        access,
        catalog=catalog.url,
        metadata_schema=catalog.metadata_schema,
        data_path=catalog.data_path,
        override_data_path=catalog.override_data_path,
        storage=catalog.storage,
    )
