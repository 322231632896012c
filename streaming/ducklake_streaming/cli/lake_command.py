"""Gives a command its lake: `--catalog`, `--data-path` and other options that are the same for all of them.

A command is a function `name(access: LakeAccess, …)`; `add_lake_command` adds these options to its own. No Spark.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_streaming.cli.errors import CommandError, ExitCode
from ducklake_streaming.cli.output import Output
from ducklake_streaming.cli.quick_start import without_collections
from ducklake_streaming.cli.warning_lines import WarningLines

if TYPE_CHECKING:
    from ducklake_core import Lake
    from ducklake_core.observe import Recorder
    from ducklake_core.storage_settings import StorageSettings

CATALOG_VARIABLE = "DUCKLAKE_CATALOG"
_EXAMPLES = "'sqlite:///lake.sqlite', 'postgresql://user@host/database' or what DuckDB's ATTACH takes"


@dataclass(frozen=True, slots=True)
class LakeAccess:
    """The lake that a command was given, not opened yet, where to show what is in it, and the time."""

    catalog: str | None
    metadata_schema: str | None
    timeout: str
    output: Output
    clock: Clock = SYSTEM_CLOCK
    data_path: str | None = None
    override_data_path: bool = False
    storage: StorageSettings | None = None

    @contextmanager
    def lake(self, recorder: Recorder | None = None) -> Iterator[Lake]:
        """Open the lake; `recorder` is told what happens, by default warnings are lines on stderr."""
        if not self.catalog:
            raise CommandError(f"which lake? Name it by --catalog or {CATALOG_VARIABLE}: {_EXAMPLES}", ExitCode.USAGE)
        with without_collections():
            from ducklake_core import Lake  # noqa: PLC0415 # takes most of the time in which a command starts

        with Lake.open(
            self.catalog,
            data_path=self.data_path,
            override_data_path=self.override_data_path,
            metadata_schema=self.metadata_schema,
            storage=self.storage,
            catalog_timeout=self.timeout,
            recorder=recorder or WarningLines(),
        ) as lake:
            yield lake


def add_lake_command(app: typer.Typer, name: str, command: Callable[..., None]) -> None:
    """Add a command that takes a `LakeAccess` first, then its own arguments and options."""
    app.command(name)(_with_lake(command))


def add_lake_group(app: typer.Typer, name: str, explanation: str, default: Callable[[LakeAccess], None]) -> typer.Typer:
    """Add a group of commands and return it; without a command of it, the `default` is run."""
    group = typer.Typer(help=explanation)
    run = _with_lake(default)

    def run_default(context: typer.Context, **given: Any) -> None:  # Any: see `_with_lake`
        if context.invoked_subcommand is None:
            run(**given)
        else:
            _refuse_options(context, context.invoked_subcommand)

    own = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    run_default.__signature__ = inspect.Signature([own, *_SHARED.values()])  # type: ignore[attr-defined] # likewise
    group.callback(invoke_without_command=True)(run_default)
    app.add_typer(group, name=name)
    return group


def _refuse_options(context: typer.Context, command: str) -> None:
    """Refuse options before a command of a group: it would not hear of them, and take another lake perhaps."""
    for name in _SHARED:
        if is_on_command_line(context, name):
            option = "--json" if name == "as_json" else f"--{name.replace('_', '-')}"
            raise CommandError(f"write {option} after '{command}', not before it", ExitCode.USAGE)


def is_on_command_line(context: typer.Context, name: str) -> bool:
    """Tell whether a parameter was typed: it is neither the default nor of the environment."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _with_lake(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that has the shared options besides its own."""

    @wraps(command)
    def run(**given: Any) -> None:  # Any: typer has parsed each by its annotation
        shared = {key: given.pop(key) for key in _SHARED}
        output = Output(as_json=shared.pop("as_json"))
        command(LakeAccess(**shared, output=output), **given)

    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    run.__signature__ = inspect.Signature([*own, *_SHARED.values()])  # type: ignore[attr-defined] # what inspect reads
    return run


def _shared_options(
    *,
    catalog: Annotated[
        str | None, typer.Option(envvar=CATALOG_VARIABLE, help="The lake, by the address of its catalog.")
    ] = None,
    metadata_schema: Annotated[
        str | None, typer.Option(help="The database schema that holds the catalog, on PostgreSQL.")
    ] = None,
    data_path: Annotated[
        str | None, typer.Option(help="Where the lake's files are: needed if its catalog has a relative path.")
    ] = None,
    override_data_path: Annotated[
        bool, typer.Option("--override-data-path", help="Take --data-path though the catalog has another one.")
    ] = False,
    timeout: Annotated[str, typer.Option(help="How long to wait for a catalog that is away.")] = "10s",
    as_json: Annotated[bool, typer.Option("--json", help="Show one JSON object per line.")] = False,
) -> None:
    """Hold the options that all commands with a lake share."""


_SHARED = dict(inspect.signature(_shared_options, eval_str=True).parameters)
