"""What a job logs: lines for people or JSON for machines, of ours and of others, without secrets and floods."""

import json
import logging
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.logger import PySparkLogger

from ducklake_core.errors import CatalogUnavailable
from ducklake_core.log_lines import RECORD_FIELDS
from ducklake_core.observe import LogRecorder
from ducklake_sinks.events import FlushFailed
from ducklake_sinks.report import BatchFailed
from ducklake_streaming.jobs.job_logs import QUERY_LOGGERS, start_logging
from ducklake_streaming.jobs.json_lines import JsonLines
from ducklake_streaming.jobs.log_settings import LogSettings
from ducklake_streaming.jobs.references import HIDDEN, Redactor
from tests.fixtures.events import BATCH, LINES

TEXT, JSON = LogSettings(), LogSettings(format="json")
OWN = {"time", "level", "event", "logger", "message", "traceback"}


def logged(error: BaseException) -> BaseException:
    """Return an error as one that was raised."""
    try:
        raise error
    except type(error) as raised:
        return raised


def line_of(formatter: JsonLines, record: logging.LogRecord) -> dict[str, Any]:  # Any: whatever JSON may hold
    text = formatter.format(record)
    assert "\n" not in text
    return dict(json.loads(text))


def record_of(message: str = "m", *args: object, **extra: object) -> logging.LogRecord:
    record = logging.LogRecord("other.library", logging.WARNING, "/x.py", 1, message, args, None)
    vars(record).update(extra)
    return record


# ---- JSON


@pytest.mark.usefixtures("own_root")
def test_a_line_of_ours_has_its_event_and_its_facts_with_their_types(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging(Redactor([]), JSON)
    before = datetime.now(UTC)

    for event, level, _ in LINES:
        if level >= logging.INFO:
            LogRecorder().record(event)

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert len(lines) == len([level for _, level, _ in LINES if level >= logging.INFO])
    found = {line["event"]: line for line in lines}
    flushed = found["flushed"]
    time = datetime.fromisoformat(flushed.pop("time"))
    assert time.tzinfo is not None
    assert time.timestamp() >= before.timestamp() - 1
    assert flushed == {
        "level": "INFO",
        "event": "flushed",
        "logger": "ducklake_core",
        "table": "main.t",
        "rows": 5,
        "files": 1,
        "bytes": 900,
        "snapshot": 8,
        "milliseconds": 12.3,
    }
    assert found["batch_replayed"]["snapshot"] is None
    assert (found["batch_failed"]["error"], found["batch_failed"]["error_type"]) == ("no", "InvalidInput")
    assert (found["catalog_unavailable"]["reason"], found["catalog_unavailable"]["reason_type"]) == (
        "away",
        "CatalogUnavailable",
    )
    assert (found["pipeline_failed"]["exit_code"], found["pipeline_failed"]["error_type"]) == (1, "InvalidInput")
    assert "traceback" in found["flush_failed"] or "traceback" in found["recorder_failed"]


@pytest.mark.parametrize("event", [event for event, _, _ in LINES], ids=lambda event: type(event).__name__)
def test_no_fact_has_the_name_of_a_field_that_every_line_has(event: Any) -> None:  # Any: ids need it
    assert set(event.facts()).isdisjoint(RECORD_FIELDS | OWN)


def test_a_line_of_another_library_has_its_message_and_its_error() -> None:
    error = logged(OSError("no room\non the disk"))
    record = record_of("failed after %d s", 3, shard=7)
    record.exc_info = (type(error), error, error.__traceback__)

    found = line_of(JsonLines(Redactor([])), record)

    assert found.pop("traceback").splitlines()[0] == "Traceback (most recent call last):"
    del found["time"]
    assert found == {
        "level": "WARNING",
        "logger": "other.library",
        "message": "failed after 3 s",
        "shard": 7,
        "error": "no room",
        "error_type": "OSError",
    }


def test_whatever_a_record_holds_is_json() -> None:
    odd: dict[str, Any] = {  # Any: whatever somebody logs
        "nan": float("nan"),
        "path": Path("/x"),
        "bytes": b"\xff",
        "lone": "\ud800",
        "when": datetime(2026, 1, 31),  # noqa: DTZ001 # as a library may have it
        "many": {"a": (1, None, True)},
        "level": "mine",
    }

    found = line_of(JsonLines(Redactor([])), record_of(**odd))

    assert found["nan"] == "nan"
    assert (found["path"], found["when"], found["lone"]) == ("/x", "2026-01-31T00:00:00", "\ud800")
    assert found["many"] == {"a": [1, None, True]}
    assert found["level"] == "WARNING"


def test_no_secret_is_in_json_whatever_json_makes_of_it() -> None:
    secrets = ['with "quotes"\\', "with\nline", "ümlaut", "123456"]
    error = logged(CatalogUnavailable(f"refused: {secrets[0]}"))
    record = record_of(
        "a line with %s", secrets[1], error=error, reason=secrets[2], port=123456, nested={secrets[2]: [secrets[0]]}
    )
    record.exc_info = (type(error), error, error.__traceback__)

    text = JsonLines(Redactor(secrets)).format(record)

    found = json.loads(text)
    assert found["message"] == f"a line with {HIDDEN}"
    assert (found["error"], found["reason"], found["port"]) == (f"refused: {HIDDEN}", HIDDEN, HIDDEN)
    assert found["nested"] == {HIDDEN: [HIDDEN]}
    assert found["traceback"].endswith(f"CatalogUnavailable: refused: {HIDDEN}")
    assert not any(secret in text or json.dumps(secret)[1:-1] in text for secret in secrets)


@pytest.mark.usefixtures("own_root")
def test_warnings_of_python_are_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging(Redactor([]), JSON)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)  # noqa: FBT003 # again: the block has put its own function there
        warnings.warn("old", UserWarning, stacklevel=1)

    [line] = capsys.readouterr().err.splitlines()
    assert "UserWarning: old" in json.loads(line)["message"]


# ---- where it goes


def test_what_is_logged_as_text_has_no_secrets(own_root: logging.Logger, tmp_path: Path) -> None:
    start_logging(Redactor(["planted"]), TEXT, log_file=tmp_path / "job.log")

    own_root.error("a line with %s", "planted", exc_info=ValueError("refused: planted"))

    text = (tmp_path / "job.log").read_text()
    assert "a line with ***" in text
    assert "ValueError: refused: ***" in text
    assert "planted" not in text


@pytest.mark.parametrize(("level", "shown"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_level_is_that_of_the_terminal_and_a_file_has_everything(
    own_root: logging.Logger, capsys: pytest.CaptureFixture[str], tmp_path: Path, level: str, shown: int
) -> None:
    start_logging(Redactor([]), LogSettings(format="json", level=level, file=str(tmp_path / "job.log")))

    for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        own_root.log(number, "a line")

    assert len(capsys.readouterr().err.splitlines()) == shown
    assert len([json.loads(line) for line in (tmp_path / "job.log").read_text().splitlines()]) == 4


def test_the_command_line_wins(own_root: logging.Logger, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    settings = LogSettings(level="error", file=str(tmp_path / "not this"))
    start_logging(Redactor([]), settings, verbose=True, log_file=tmp_path / "job.log")

    own_root.debug("a line")

    assert "a line" in capsys.readouterr().err
    assert "a line" in (tmp_path / "job.log").read_text()
    assert not (tmp_path / "not this").exists()


@pytest.mark.parametrize("verbose", [False, True])
def test_stacks_of_what_we_tell_in_a_line_are_shown_only_where_they_are_asked_for(
    own_root: logging.Logger, capsys: pytest.CaptureFixture[str], *, verbose: bool
) -> None:
    start_logging(Redactor([]), TEXT, verbose=verbose)

    for file in ("/lib/py4j/java_gateway.py", "/lib/other.py"):
        own_root.handle(logging.LogRecord("root", logging.ERROR, file, 1, "a line of %s", (file,), None))
    for name in QUERY_LOGGERS:
        PySparkLogger.getLogger(name).error("a line of pyspark")

    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition("a line of ")[2] for line in lines] == (
        ["/lib/py4j/java_gateway.py", "/lib/other.py", "pyspark", "pyspark"] if verbose else ["/lib/other.py"]
    )


def test_a_library_that_says_the_same_again_and_again_is_counted_and_spaced(
    own_root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    start_logging(Redactor([]), TEXT)
    handler = own_root.handlers[-1]
    [spaced] = [one for one in handler.filters if hasattr(one, "_spacing")]
    clock = iter(range(1000))
    spaced._spacing._seconds = lambda: float(next(clock))

    for attempt in range(35):
        own_root.warning("connection %d refused", attempt)
    own_root.info("an ordinary line")
    own_root.info("an ordinary line")

    said = [line.partition(" WARNING ")[2] or "INFO" for line in capsys.readouterr().err.splitlines()]
    assert said == [
        *("connection 0 refused", "connection 10 refused times=11", "connection 30 refused times=31"),
        *("INFO", "INFO"),
    ]


@pytest.mark.usefixtures("own_root")
@pytest.mark.parametrize("settings", [TEXT, JSON], ids=["text", "json"])
def test_tracebacks_are_in_the_file_and_on_the_terminal_where_they_are_asked_for_or_new(
    settings: LogSettings, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    start_logging(Redactor([]), settings, log_file=tmp_path / "job.log")
    log = LogRecorder()

    log.record(BatchFailed(BATCH, logged(OSError("no"))))
    for times in (1, 2):
        log.record(FlushFailed({"table": "main.t"}, times, logged(OSError("no"))))
    for _ in range(2):
        logging.getLogger("ducklake_core").error("of another", exc_info=logged(OSError("no")))

    shown, kept = capsys.readouterr().err, (tmp_path / "job.log").read_text()
    assert (shown.count("Traceback"), kept.count("Traceback")) == (2, 5)
    assert shown.index("Traceback") > shown.index("flush_failed")
