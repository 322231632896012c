"""Sends spans to a collector by OTLP over HTTP, in a thread of the SDK: no batch waits for it. Runs on the driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from ducklake_core.version import package_version
from ducklake_streaming.tracing.recorder import TraceRecorder

_PATH = "/v1/traces"
EXIT_SECONDS = 3.0  # for what is not sent yet when the job ends


class SpanSender:
    """A provider of tracers whose spans go to a collector. Use it in a `with` block: the end sends what is left.

    `endpoint` None: as OpenTelemetry's own variables say. A collector that is away loses spans, and nothing else.
    """

    def __init__(self, service_name: str, endpoint: str | None) -> None:
        resource = Resource.create({SERVICE_NAME: service_name, SERVICE_VERSION: package_version()})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        url = None if endpoint is None else f"{endpoint.rstrip('/').removesuffix(_PATH)}{_PATH}"
        self._exporter = OTLPSpanExporter(endpoint=url)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))

    def recorder(self, redact: Callable[[str], str]) -> TraceRecorder:
        """Return who makes spans for it."""
        return TraceRecorder(self._provider, redact=redact)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        # In a thread: the SDK's own limit of time is not kept, and a job must not wait for a collector that is away.
        last = threading.Thread(target=self._provider.force_flush, name="ducklake-last-spans", daemon=True)
        last.start()
        last.join(EXIT_SECONDS)
        (self._exporter if last.is_alive() else self._provider).shutdown()
