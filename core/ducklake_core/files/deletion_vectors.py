"""Deletion vectors: the positions in an Iceberg `deletion-vector-v1` blob, which the reference writes bare (format §7).

Pure; reading only. The layout is that of the Puffin and Roaring specifications: length and checksum big-endian around
a magic number and a little-endian map from the high 32 bits of the positions to a 32-bit Roaring bitmap.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

from ducklake_core.errors import UnreadableFile

_MAGIC = b"\xd1\xd3\x39\x64"
_COOKIE = 12347  # with run containers
_COOKIE_WITHOUT_RUNS = 12346
_LARGEST_ARRAY = 4096  # values; a container with more is a bitset
_FEWEST_WITH_OFFSETS = 4  # containers; with runs, smaller bitmaps have no offset table


def positions_of(blob: bytes) -> np.ndarray:
    """Return the sorted positions of a blob; raise UnreadableFile when it is damaged."""
    try:
        return _positions(_body(blob))
    except (struct.error, ValueError) as error:
        raise UnreadableFile(f"the deletion vector is damaged: {error}") from error


def _body(blob: bytes) -> bytes:
    (length,) = struct.unpack_from(">I", blob, 0)
    content = blob[4 : 4 + length]
    (checksum,) = struct.unpack_from(">I", blob, 4 + length)
    if content[:4] != _MAGIC:
        raise ValueError("its magic number is wrong")
    if zlib.crc32(content) != checksum:
        raise ValueError("its checksum is wrong")
    return content[4:]


def _positions(body: bytes) -> np.ndarray:
    (bitmaps,) = struct.unpack_from("<Q", body, 0)
    offset, found = 8, [np.empty(0, np.int64)]
    for _ in range(bitmaps):
        (high,) = struct.unpack_from("<I", body, offset)
        values, offset = _bitmap(body, offset + 4)
        found.append(values + (high << 32))
    positions = np.concatenate(found)
    if not (np.diff(positions) > 0).all():
        raise ValueError("its positions do not increase")
    return positions


def _bitmap(body: bytes, offset: int) -> tuple[np.ndarray, int]:
    """Return the values of a 32-bit bitmap, and the offset behind it."""
    count, has_runs, offset = _header(body, offset)
    keys = np.frombuffer(body, "<u2", 2 * count, offset).reshape(-1, 2)
    offset += 4 * count
    if not has_runs.any() or count >= _FEWEST_WITH_OFFSETS:
        offset += 4 * count  # the table of offsets: containers follow each other anyway
    found = [np.empty(0, np.int64)]
    for (high, size), is_run in zip(keys.tolist(), has_runs[:count].tolist(), strict=True):
        values, offset = _runs(body, offset) if is_run else _container(body, offset, size + 1)
        found.append(values.astype(np.int64) + (high << 16))
    return np.concatenate(found), offset


def _header(body: bytes, offset: int) -> tuple[int, np.ndarray, int]:
    """Return the number of containers, which of them are runs, and the offset of the keys."""
    (cookie,) = struct.unpack_from("<I", body, offset)
    if cookie == _COOKIE_WITHOUT_RUNS:
        (count,) = struct.unpack_from("<I", body, offset + 4)
        return count, np.zeros(count, bool), offset + 8
    if cookie & 0xFFFF != _COOKIE:
        raise ValueError("it is no Roaring bitmap")
    count = (cookie >> 16) + 1
    size = (count + 7) // 8
    flags = np.unpackbits(np.frombuffer(body, np.uint8, size, offset + 4), bitorder="little")
    return count, flags.astype(bool), offset + 4 + size


def _container(body: bytes, offset: int, size: int) -> tuple[np.ndarray, int]:
    if size <= _LARGEST_ARRAY:
        return np.frombuffer(body, "<u2", size, offset), offset + 2 * size
    bits = np.unpackbits(np.frombuffer(body, np.uint8, 8192, offset), bitorder="little")
    return np.flatnonzero(bits), offset + 8192


def _runs(body: bytes, offset: int) -> tuple[np.ndarray, int]:
    (count,) = struct.unpack_from("<H", body, offset)
    runs = np.frombuffer(body, "<u2", 2 * count, offset + 2).reshape(-1, 2).tolist()
    values = [np.arange(start, start + length + 1) for start, length in runs]
    return np.concatenate([np.empty(0, np.int64), *values]), offset + 2 + 4 * count
