"""Says on stderr what an operator must hear of while a command runs, such as a catalog that is away. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ducklake_streaming.cli.output import make_screen

if TYPE_CHECKING:
    from ducklake_core.observe import Event


class WarningLines:
    """A recorder that writes warnings as lines, and nothing else."""

    def record(self, event: Event) -> None:
        import logging  # noqa: PLC0415 # see the docstring of the package

        from ducklake_core.log_lines import line_of  # noqa: PLC0415 # likewise

        if event.severity() >= logging.WARNING:
            make_screen(error=True).print(line_of(event.line, event.facts()), style="yellow")
