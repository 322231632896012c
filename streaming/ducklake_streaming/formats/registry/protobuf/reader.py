"""The values of records that were written with one Protobuf schema. Runs on executors; the driver asks for columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from ducklake_streaming.formats.registry.client import RegisteredSchema
from ducklake_streaming.formats.registry.columns import arrow_type
from ducklake_streaming.formats.registry.errors import UnusableSchema
from ducklake_streaming.formats.registry.protobuf.compiler import compile_schema
from ducklake_streaming.formats.registry.protobuf.fields import Descriptor, UndeclaredField, fields_of
from ducklake_streaming.formats.registry.values import Decoded, Reasons, build
from ducklake_streaming.formats.registry.wire import HEADER_BYTES


class ProtobufReader:
    """Reads the messages of one name that one schema has written. Other messages of the schema have a reason."""

    def __init__(self, schema: RegisteredSchema, message: str | None) -> None:
        files = FileDescriptorSet.FromString(compile_schema(schema.text, schema.references)).file
        self._file: FileDescriptorProto = files[-1]  # after all that it imports
        self._name = message or _first_message(self._file)
        descriptor = _find_message(files, self._name)
        self._class = GetMessageClass(descriptor)
        self.columns, self._get = fields_of(descriptor)

    def read(self, records: pa.BinaryArray) -> Decoded:
        reasons = Reasons()
        values = [self._read(record.as_py(), row, reasons) for row, record in enumerate(records)]
        return Decoded(build(values, arrow_type(self.columns), reasons), reasons)

    def _read(self, record: bytes, row: int, reasons: Reasons) -> object:
        try:
            indexes, start = read_indexes(record)
            name = _message_at(self._file, indexes)
            if name != self._name:
                reasons.add(row, f"the record is a message '{name}', and the input reads '{self._name}'")
                return None
            return self._get(self._class.FromString(record[start:]))
        except (DecodeError, IndexError, UndeclaredField) as error:
            reasons.add(row, f"the value does not fit its Protobuf schema: {error}")
            return None


def read_indexes(record: bytes) -> tuple[list[int], int]:
    """Return which message of the schema a record is, and where it begins. Raises IndexError."""
    count, place = _read_number(record, HEADER_BYTES)
    if count == 0:
        return [0], place  # how the first message is written
    indexes = []
    for _ in range(count):
        index, place = _read_number(record, place)
        indexes.append(index)
    return indexes, place


def _read_number(record: bytes, place: int) -> tuple[int, int]:
    bits = shift = 0
    while True:
        if place >= len(record):
            raise IndexError("it ends within the list of message indexes")
        byte = record[place]
        bits |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if not byte & 0x80:
            return (bits >> 1) ^ -(bits & 1), place


def _message_at(file: FileDescriptorProto, indexes: Sequence[int]) -> str:
    """Return the full name of a message by its place; a map's entries are no messages to those who write indexes."""
    names = [file.package] if file.package else []
    messages = file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            raise IndexError(f"its schema has no message of index {list(indexes)}")
        names.append(messages[index].name)
        messages = [inner for inner in messages[index].nested_type if not inner.options.map_entry]
    return ".".join(names)


def _first_message(file: FileDescriptorProto) -> str:
    if not file.message_type:
        raise UnusableSchema("it has no message")
    return _message_at(file, [0])


def _find_message(files: Sequence[FileDescriptorProto], name: str) -> Descriptor:
    pool = DescriptorPool()
    for file in files:
        pool.Add(file)
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError as error:
        raise UnusableSchema(f"it has no message '{name}'") from error
