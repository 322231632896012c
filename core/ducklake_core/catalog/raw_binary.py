"""Parameters that are in PostgreSQL's binary format already: psycopg passes them through."""

from __future__ import annotations

from psycopg import adapters
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format


class RawBinary(bytes):
    """Bytes of a binary parameter; the statement's cast tells the server its type."""


class _RawBinaryDumper(Dumper):
    format = Format.BINARY
    oid = 0

    def dump(self, obj: RawBinary) -> Buffer:
        return bytes(obj)


adapters.register_dumper(RawBinary, _RawBinaryDumper)
