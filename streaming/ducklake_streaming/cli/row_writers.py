"""Writes rows as they come, record batch by record batch: as a table, JSON lines, CSV or Parquet. No Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from rich.cells import cell_len

from ducklake_streaming.cli.errors import CommandError, ExitCode
from ducklake_streaming.cli.output import json_line
from ducklake_streaming.cli.row_values import columns_of, json_rows, text_rows
from ducklake_streaming.overview.fields import plain_text

RowFormat: TypeAlias = Literal["table", "json", "csv", "parquet"]
_NULL = "NULL"


class RowWriter(Protocol):
    """Writes record batches of one schema."""

    def write(self, batch: pa.RecordBatch) -> None: ...


class TableRows:
    """Rows in columns for people. Later rows keep the widths of those before, so that a live tail stays aligned."""

    def __init__(self, stream: IO[str], schema: pa.Schema) -> None:
        self._stream = stream
        self._columns = columns_of(schema)
        self._numeric = [pa.types.is_integer(field.type) or pa.types.is_floating(field.type) for field in schema]
        self._widths = [0] * len(schema)
        self._is_begun = False

    def write(self, batch: pa.RecordBatch) -> None:
        rows = [
            [_NULL if text is None else plain_text(text) for text in row] for row in text_rows(batch, self._columns)
        ]
        header = [] if self._is_begun else [[plain_text(column.name) for column in self._columns]]
        for row in (*header, *rows):
            self._widths = [max(width, cell_len(cell)) for width, cell in zip(self._widths, row, strict=True)]
        self._stream.writelines(f"{self._line(row)}\n" for row in (*header, *rows))
        self._is_begun = True

    def _line(self, row: Sequence[str]) -> str:
        cells = zip(row, self._widths, self._numeric, strict=True)
        return "  ".join(_padded(cell, width, is_right=number) for cell, width, number in cells).rstrip()


def _padded(cell: str, width: int, *, is_right: bool) -> str:
    space = " " * (width - cell_len(cell))
    return space + cell if is_right else cell + space


class JsonRows:
    """One object per line."""

    def __init__(self, stream: IO[str], schema: pa.Schema) -> None:
        self._stream = stream
        self._columns = columns_of(schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._stream.writelines(f"{json_line(row)}\n" for row in json_rows(batch, self._columns))


class CsvRows:
    """Comma-separated values with a header, as DuckDB writes and reads them: a null is nothing, an empty text `""`."""

    def __init__(self, stream: IO[str], schema: pa.Schema) -> None:
        self._stream = stream
        self._columns = columns_of(schema)
        stream.write(",".join(map(_csv_cell, schema.names)) + "\n")

    def write(self, batch: pa.RecordBatch) -> None:
        self._stream.writelines(",".join(map(_csv_cell, row)) + "\n" for row in text_rows(batch, self._columns))


def _csv_cell(text: str | None) -> str:
    if text is None:
        return ""
    is_plain = text and not any(character in text for character in ',"\r\n') and text == text.strip()
    return text if is_plain else '"' + text.replace('"', '""') + '"'


_WRITERS: dict[str, Callable[[IO[str], pa.Schema], RowWriter]] = {"table": TableRows, "json": JsonRows, "csv": CsvRows}


def make_writer(row_format: RowFormat, schema: pa.Schema, stream: IO[str] | None = None) -> RowWriter:
    """Return what writes rows as text, to stdout by default."""
    return _WRITERS[row_format](stream or sys.stdout, schema)


class _ParquetRows:
    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)


@contextmanager
def open_writer(row_format: RowFormat, schema: pa.Schema, output: Path | None) -> Iterator[RowWriter]:
    """Open what writes rows to stdout, or to a file: which is there when all rows are in it, and not before."""
    if output is None:
        if row_format == "parquet":
            raise CommandError("Parquet is no text: name a file with --output", ExitCode.USAGE)
        yield make_writer(row_format, schema)
        return
    part = output.with_name(f".{output.name}.part") if output.is_file() or not output.exists() else output
    try:
        with _opened(row_format, schema, part) as writer:
            yield writer
        if part != output:
            part.replace(output)
    finally:
        if part != output:
            part.unlink(missing_ok=True)


@contextmanager
def _opened(row_format: RowFormat, schema: pa.Schema, path: Path) -> Iterator[RowWriter]:
    if row_format == "parquet":
        with pq.ParquetWriter(path, schema) as writer:
            yield _ParquetRows(writer)
    else:
        with path.open("w", encoding="utf-8", newline="") as stream:
            yield make_writer(row_format, schema, stream)
