"""The command `demo`: a lake, a stream into it and what to look at, in a minute. It starts Spark."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from ducklake_streaming.cli.errors import CommandError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    catalog: Annotated[Literal["sqlite", "postgres"], typer.Option(help="Where the catalog is.")] = "sqlite",
    source: Annotated[
        Literal["rate", "kafka"],
        typer.Option("--input", help="Where rows come from: Spark's own rate, or topics of a Kafka broker."),
    ] = "rate",
    seconds: Annotated[int, typer.Option(min=1, help="For how long small batches come.")] = 20,
    directory: Annotated[Path, typer.Option(help="Where the lake goes; made anew.")] = Path("demo-lake"),
) -> None:
    """Stream into a new lake with Spark, and show it. It needs Java.

    With `--input kafka` a job file does it: a broker is started, the job is killed in the middle and started again,
    and at the end each record is accounted for. The job file stays for you to change.

    Examples: `ducklake-stream demo --seconds 5`, `ducklake-stream demo --input kafka --catalog postgres`
    """
    from ducklake_streaming.demo.workspace import DemoError  # noqa: PLC0415 # it imports a database driver

    run = _run_kafka if source == "kafka" else _run_rate
    try:
        run(directory, catalog, seconds)
    except DemoError as error:
        raise CommandError(str(error)) from error


def _run_rate(directory: Path, catalog: str, seconds: int) -> None:
    from ducklake_streaming.demo.run import Demo, run_demo  # noqa: PLC0415 # it imports Spark

    run_demo(Demo(directory, catalog, seconds), partial(print, flush=True))


def _run_kafka(directory: Path, catalog: str, seconds: int) -> None:
    from ducklake_streaming.demo.kafka_run import KafkaDemo, run_kafka_demo  # noqa: PLC0415 # it imports Kafka's client

    run_kafka_demo(KafkaDemo(directory, catalog, seconds), partial(print, flush=True))
