"""Arrow rows as bytes, for their way between driver and executors, and back. Pure; runs everywhere."""

from __future__ import annotations

import pyarrow as pa


def to_stream(rows: pa.Table, compression: str | None = None) -> bytes:
    """Return rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(rows)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def from_stream(stream: bytes) -> pa.RecordBatchReader:
    """Return the rows of an Arrow IPC stream, a record batch at a time."""
    return pa.ipc.open_stream(stream)
