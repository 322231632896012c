"""What happens to the pipelines of a job, as values for the recorder. Made on the driver."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from ducklake_core.log_lines import is_worth_saying
from ducklake_streaming.jobs.exit_codes import ExitCode, find_own_error, line_of_error
from ducklake_streaming.kafka.events import StreamingEvent


def facts_of_error(error: BaseException) -> dict[str, object]:
    """Return what a line says of an error that Spark may have wrapped."""
    return {"error": line_of_error(error), "error_type": type(find_own_error(error) or error).__name__}


@dataclass(frozen=True, slots=True)
class PipelineEnded(StreamingEvent):
    """A pipeline has ended as told: it was stopped, or there was no more to do."""

    line = "pipeline_ended"
    pipeline: str


@dataclass(frozen=True, slots=True)
class PipelineFailed(StreamingEvent):
    """A pipeline has failed. Its line has no stack, which is shown at DEBUG.

    To do: read the error: [troubleshooting](troubleshooting.md); `exit_code` tells whether a restart can help.
    """

    line = "pipeline_failed"
    level = logging.ERROR
    pipeline: str
    code: ExitCode
    error: BaseException

    def facts(self) -> Mapping[str, object]:
        return {"pipeline": self.pipeline, "exit_code": int(self.code), **facts_of_error(self.error)}

    def traceback_of(self) -> BaseException | None:
        return self.error if self.logger.isEnabledFor(logging.DEBUG) else None


@dataclass(frozen=True, slots=True)
class PipelineRestarted(StreamingEvent):
    """The query of a pipeline failed of what passes by itself, such as a broker that is away.

    It begins again from its checkpoint.

    To do: see that the brokers run; if it goes on for long, look at the reason.
    """

    line = "pipeline_restarted"
    level = logging.WARNING
    repeats_by = ("pipeline",)
    pipeline: str
    reason: BaseException

    def facts(self) -> Mapping[str, object]:
        return {"pipeline": self.pipeline, "reason": line_of_error(self.reason)}


@dataclass(frozen=True, slots=True)
class RecordsRead(StreamingEvent):
    """Records of Kafka were read for a batch; `newest` is the time of the newest one, None where there was none."""

    line = "records_read"
    level = logging.DEBUG
    pipeline: str
    newest: datetime | None


@dataclass(frozen=True, slots=True)
class ChangesRead(StreamingEvent):
    """Changes of a table were read for a batch: so many rows of each change type."""

    line = "changes_counted"
    level = logging.DEBUG
    pipeline: str
    rows: Mapping[str, int]

    def facts(self) -> Mapping[str, object]:
        return {"pipeline": self.pipeline, **self.rows}


@dataclass(frozen=True, slots=True)
class PipelineStarted(StreamingEvent):
    """The query of a pipeline runs."""

    line = "pipeline_started"
    ends = PipelineRestarted
    pipeline: str


@dataclass(frozen=True, slots=True)
class JobStopping(StreamingEvent):
    """A job is about to end: its pipelines finish the batch that they are in. `reason`: a signal or a pipeline."""

    line = "job_stopping"
    reason: str


@dataclass(frozen=True, slots=True)
class JobEnded(StreamingEvent):
    """All pipelines of a job have ended."""

    line = "job_ended"
    code: ExitCode
    failed: tuple[str, ...]

    def facts(self) -> Mapping[str, object]:
        return {"exit_code": int(self.code), **({"failed": ",".join(self.failed)} if self.failed else {})}


@dataclass(frozen=True, slots=True)
class JobFailed(StreamingEvent):
    """A job has failed as a whole: it could not begin. Only a log in JSON has it; else it is the command's own message.

    To do: read the error: [troubleshooting](troubleshooting.md).
    """

    line = "job_failed"
    level = logging.ERROR
    code: ExitCode
    error: BaseException

    def facts(self) -> Mapping[str, object]:
        return {"exit_code": int(self.code), **facts_of_error(self.error)}


@dataclass(frozen=True, slots=True)
class MaintenanceHeldBack(StreamingEvent):
    """An operation of maintenance did nothing, or not all: `reason` says who or what kept it from more."""

    line = "maintenance_held_back"
    operation: str
    reason: str


@dataclass(frozen=True, slots=True)
class OrphansFound(StreamingEvent):
    """Maintenance has counted files that no snapshot names, and left them."""

    line = "orphans_found"
    files: int
    size_bytes: int

    def facts(self) -> Mapping[str, object]:
        return {"files": self.files, "bytes": self.size_bytes}


@dataclass(frozen=True, slots=True)
class MaintenanceFailed(StreamingEvent):
    """A run of maintenance beside the pipelines has failed, or a part of it, so many times in a row.

    Another run comes `next_seconds` later. It is said at first, and then ever less often.

    To do: read the reason: [keep a lake fast](keep-a-lake-fast.md); pipelines go on meanwhile.
    """

    line = "maintenance_failed"
    reason: str
    times: int
    next_seconds: float

    def severity(self) -> int:
        return logging.ERROR if is_worth_saying(self.times) else logging.DEBUG


@dataclass(frozen=True, slots=True)
class MaintenanceRecovered(StreamingEvent):
    """A run of maintenance went well after some that had not."""

    line = "maintenance_recovered"
    after_failures: int
