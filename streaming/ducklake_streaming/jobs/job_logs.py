"""Where a job's log goes: lines on stderr, and to a file where one is named; without its secrets. On the driver."""

from __future__ import annotations

import logging
from pathlib import Path

from ducklake_streaming.jobs.references import Redactor

FORMAT = "%(asctime)s %(levelname)s %(message)s"
# They log at INFO and DEBUG what nobody asked for: each call to the JVM, each row of a connection.
_CHATTY = ("py4j", "urllib3", "fsspec", "asyncio")


def start_logging(redactor: Redactor, *, verbose: bool = False, log_file: Path | None = None) -> None:
    """Let all that is logged go to stderr, at INFO or with `verbose` at DEBUG; a file has DEBUG in any case."""
    root = logging.getLogger()
    root.setLevel(logging.DEBUG if verbose or log_file else logging.INFO)
    shown = logging.StreamHandler()
    if not verbose:
        shown.addFilter(_is_not_of_py4j)
    _add(root, shown, logging.DEBUG if verbose else logging.INFO, redactor)
    if log_file is not None:
        _add(root, logging.FileHandler(log_file), logging.DEBUG, redactor)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


def _add(root: logging.Logger, handler: logging.Handler, level: int, redactor: Redactor) -> None:
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter(FORMAT))
    handler.addFilter(redactor)
    root.addHandler(handler)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Tell whether a line is another's: Py4J logs stacks by the root logger for each call to a JVM that has ended.

    What came of it is an error that is told in a line of our own.
    """
    return "py4j" not in Path(record.pathname).parts
