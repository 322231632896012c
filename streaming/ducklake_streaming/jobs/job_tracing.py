"""Traces of a job, where its file asks for them; without that, nothing of OpenTelemetry is imported. On the driver."""

from __future__ import annotations

from contextlib import ExitStack

from ducklake_core.errors import InvalidInput
from ducklake_core.observe import Recorder
from ducklake_streaming.jobs.job_file import LoadedJob


def begin_tracing(loaded: LoadedJob, stack: ExitStack) -> list[Recorder]:
    """Return the recorder that makes spans, if one is asked for; what it has not sent is sent when the stack ends."""
    settings = loaded.job.tracing
    if settings is None:
        return []
    require_sdk()
    from ducklake_streaming.tracing.exporting import SpanSender  # noqa: PLC0415 # it imports OpenTelemetry

    sender = stack.enter_context(SpanSender(settings.service_name, settings.endpoint))
    return [sender.recorder(loaded.redactor.redact)]


def require_sdk() -> str:
    """Return the version of OpenTelemetry's SDK. Raises InvalidInput where it is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http import trace_exporter  # noqa: F401, PLC0415 # to see if it is there
        from opentelemetry.sdk.version import __version__  # noqa: PLC0415 # likewise
    except ImportError as error:
        raise InvalidInput(
            f"[tracing] needs OpenTelemetry: pip install 'ducklake-streaming[otel]', or take [tracing] out ({error})"
        ) from error
    return __version__
