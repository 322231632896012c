"""The header of Confluent's wire format: a zero byte and four bytes of a schema id. Pure; runs on executors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ducklake_streaming.formats.registry.values import Reasons, Rows

HEADER_BYTES = 5
_NO_ID = -1


@dataclass(frozen=True, slots=True)
class Bytes:
    """The bytes of binary values, without copying them: `data[starts[i]:ends[i]]` is value i."""

    data: npt.NDArray[np.uint8]
    starts: Rows
    ends: Rows

    @classmethod
    def of(cls, values: pa.BinaryArray) -> Bytes:
        _, offsets, data = values.buffers()
        ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
        content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        return cls(content, ends[:-1], ends[1:])


def read_schema_ids(values: pa.BinaryArray, reasons: Reasons) -> dict[int, Rows]:
    """Return the rows of each schema id; rows without a header have a reason instead."""
    found = Bytes.of(values)
    ids = np.full(len(values), _NO_ID, np.int64)
    lengths = found.ends - found.starts
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    reasons.add_all(np.flatnonzero(is_null), "the record has no value: it is a tombstone")
    is_short = ~is_null & (lengths < HEADER_BYTES)
    for row in np.flatnonzero(is_short).tolist():
        reasons.add(
            row, f"the value has {lengths[row]} bytes, fewer than the {HEADER_BYTES} of a schema registry's header"
        )
    rows = np.flatnonzero(~is_null & ~is_short)
    headers = found.data[found.starts[rows, None] + np.arange(HEADER_BYTES)]
    for row, magic in zip(rows[headers[:, 0] != 0].tolist(), headers[headers[:, 0] != 0, 0].tolist(), strict=True):
        reasons.add(row, f"the value begins with byte {magic}, not with 0: it was not written with a schema registry")
    right = headers[:, 0] == 0
    ids[rows[right]] = headers[right, 1:].copy().view(">u4")[:, 0]
    return {int(one): np.flatnonzero(ids == one) for one in np.unique(ids[ids != _NO_ID])}
