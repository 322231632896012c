"""Spans for OpenTelemetry, made of what recorders are told. Imported by those alone who ask for traces."""

from ducklake_streaming.tracing.recorder import TraceRecorder

__all__ = ["TraceRecorder"]
