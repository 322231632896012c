"""Where a job's log goes: lines on stderr, and to a file where one is named; without its secrets. On the driver."""

from __future__ import annotations

import copy
import logging
from pathlib import Path

from pyspark.logger import PySparkLogger

from ducklake_core.spacing import Spacing
from ducklake_streaming.jobs.json_lines import JsonLines
from ducklake_streaming.jobs.log_settings import LogSettings
from ducklake_streaming.jobs.references import Redactor

FORMAT = "%(asctime)s %(levelname)s %(message)s"
# They log at INFO and DEBUG what nobody asked for: each call to the JVM, each row of a connection.
_CHATTY = ("py4j", "urllib3", "fsspec", "asyncio")
# By these PySpark logs each error of a query, with its stack, past the root logger and in JSON of its own.
QUERY_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def start_logging(
    redactor: Redactor, settings: LogSettings, *, verbose: bool = False, log_file: Path | None = None
) -> None:
    """Let all that is logged go to stderr, from the level that is set or with `verbose` from DEBUG.

    A file has DEBUG in any case. `verbose` and `log_file` are the command line's, and win.
    """
    level = logging.DEBUG if verbose else getattr(logging, settings.level.upper())
    shown = logging.StreamHandler()
    if level > logging.DEBUG:
        shown.addFilter(_is_not_told_by_us)
        shown.addFilter(SpacedLines())
    handlers = [_prepared(shown, level, settings, redactor)]
    if file := log_file or settings.file:
        handler = logging.FileHandler(file, encoding="utf-8")
        handlers.append(_prepared(handler, logging.DEBUG, settings, redactor))
    root = logging.getLogger()
    root.setLevel(min(handler.level for handler in handlers))
    root.handlers += handlers
    _route_others(handlers)
    logging.captureWarnings(settings.format == "json")


def _prepared(handler: logging.Handler, level: int, settings: LogSettings, redactor: Redactor) -> logging.Handler:
    """Return a handler that writes lines of the format that is set, without secrets."""
    handler.setLevel(level)
    if settings.format == "json":
        lines: logging.Formatter = JsonLines(redactor)
    else:
        lines = logging.Formatter(FORMAT)
        handler.addFilter(redactor)
    handler.setFormatter(lines if level <= logging.DEBUG else OneLineErrors(lines))
    return handler


class OneLineErrors(logging.Formatter):
    """Formats records without tracebacks, but for the first of what repeats: others are for those who ask for DEBUG.

    A record has its traceback when anybody wants it, and the handler of the file may.
    """

    def __init__(self, lines: logging.Formatter) -> None:
        super().__init__()
        self._lines = lines

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as its lines have it."""
        times = getattr(record, "times", None)
        is_news = times == 1 if hasattr(record, "event") else times is None
        if not is_news:
            record = copy.copy(record)
            record.exc_info = record.exc_text = None
        return self._lines.format(record)


def _route_others(handlers: list[logging.Handler]) -> None:
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in QUERY_LOGGERS:
        PySparkLogger.getLogger(name).handlers = list(handlers)  # its `addHandler` would set another format


def _is_not_told_by_us(record: logging.LogRecord) -> bool:
    """Tell whether a line is news: Py4J and PySpark log stacks of errors that we tell in a line of our own."""
    return "py4j" not in Path(record.pathname).parts and record.name not in QUERY_LOGGERS


class SpacedLines(logging.Filter):
    """Lets a warning of another library pass at once, and then ever less often, with how often it was."""

    def __init__(self) -> None:
        super().__init__()
        self._spacing: Spacing[str] = Spacing()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or hasattr(record, "event"):
            return True
        text = str(record.msg)
        repeated = self._spacing.add((record.name, record.levelno, text), text)
        if repeated is not None and repeated.times > 1:
            record.msg, record.args = f"{record.getMessage()} times={repeated.times}", ()
            record.times = repeated.times
        return repeated is not None
