"""`[tracing]` of a job file. Runs on the driver, before Spark starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ducklake_core.settings import Text, setting
from ducklake_streaming.jobs.keys import Keys
from ducklake_streaming.jobs.literal_secrets import literal_password_of_url
from ducklake_streaming.jobs.values import OptionalHttpUrl


class TracingSettings(Keys):
    """`[tracing]`: spans of batches, sent to a collector of OpenTelemetry. It needs the extra `otel`."""

    endpoint: OptionalHttpUrl = setting(
        "the collector that takes OTLP by HTTP, such as `http://collector:4318`; default: as OpenTelemetry's own "
        "variables say, else this machine",
        default=None,
    )
    service_name: Text = setting("what traces call this job", default="ducklake-stream")

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: each is of its own type
        if problem := literal_password_of_url(right.get("endpoint") or ""):
            yield f"endpoint {problem}"
