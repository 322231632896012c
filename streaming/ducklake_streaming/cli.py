"""The command `ducklake-stream`. It parses arguments, calls what does the work and turns errors into exit codes.

Exit codes: 0 ok, 1 failure, 2 usage, 130 interrupted. Runs on the driver or on a laptop.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ducklake_core.errors import DuckLakeError
from ducklake_core.version import package_version
from ducklake_streaming.demo.run import Demo, run_demo
from ducklake_streaming.demo.workspace import WORKSPACES, DemoError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; argparse itself exits with 2 on wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        run_demo(Demo(options.directory, options.catalog, options.seconds), partial(print, flush=True))
    except (DemoError, DuckLakeError) as error:
        print(f"ducklake-stream: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # as a shell says it
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ducklake-stream", description="Stream into and out of a DuckLake.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {package_version()}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_demo(commands.add_parser("demo", help="stream into a new lake with Spark, and show it"))
    return parser


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--catalog", choices=WORKSPACES, default="sqlite", help="where the catalog is (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=_positive, default=20, help="of small batches (default: %(default)s)")
    parser.add_argument("--directory", type=Path, default=Path("demo-lake"), help="made anew (default: %(default)s)")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
