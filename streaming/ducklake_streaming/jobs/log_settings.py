"""`[log]` of a job file. Runs on the driver, before Spark starts."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from ducklake_core.settings import OptionalText, setting
from ducklake_streaming.jobs.keys import Keys
from ducklake_streaming.jobs.values import one_of

LogFormat: TypeAlias = Annotated[str, *one_of("text", "json")]
LogLevel: TypeAlias = Annotated[str, *one_of("debug", "info", "warning", "error")]


class LogSettings(Keys):
    """`[log]`: what the job says of itself."""

    format: LogFormat = setting(
        '"text": lines for people, `event key=value …`; "json": the same facts, one object per line', default="text"
    )
    level: LogLevel = setting(
        'the least level that standard error shows: "debug", "info", "warning" or "error"', default="info"
    )
    file: OptionalText = setting("a file that gets everything, at `debug`, in the same format", default=None)
