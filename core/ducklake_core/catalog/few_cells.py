"""Few values → array parameters in PostgreSQL's binary format. Pure; runs where the commit runs.

What `postgres_values.py` does with numpy for any number of rows; the server gets the same values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat
from typing import TypeAlias

from ducklake_core.catalog import postgres_values
from ducklake_core.model import Column
from ducklake_core.spec.few_rows import FewValues, Items, few_texts
from ducklake_core.spec.memo import per_object

_Encoder: TypeAlias = Callable[[FewValues], bytes]

_FEW_NUMBERS = 20  # from here on numpy packs numbers faster than Python
_NULL = b"\xff\xff\xff\xff"
_pack_length = struct.Struct(">i").pack


@per_object
def encoders_of(columns: Sequence[Column]) -> Sequence[_Encoder]:
    """Return what makes an array parameter of each column's values."""
    return [_encoder(column) for column in columns]


def _encoder(column: Column) -> _Encoder:
    type_ = postgres_values.postgres_type(column)
    encode = _CELLS.get(column.type) or (_text_cells if type_.name == "VARCHAR" else None)

    is_fixed = encode is not None and type_.name not in ("BYTEA", "VARCHAR")

    def array_of(values: FewValues) -> bytes:
        if encode is None or values.items is None or (is_fixed and len(values.items) > _FEW_NUMBERS):
            cells = postgres_values.encoder_of(column)(values.array)
            return postgres_values.array_parameter(cells, type_.oid)
        return struct.pack(">iiIii", 1, 1, type_.oid, len(values.items), 1) + encode(values)

    return array_of


def _number_cells(code: str) -> _Encoder:
    one = struct.Struct(f">i{code}")
    size = one.size - 4

    def encode(values: FewValues) -> bytes:
        items: Items = values.items or []
        if values.array.null_count:
            return b"".join([_NULL if item is None else one.pack(size, item) for item in items])
        return struct.pack(">" + f"i{code}" * len(items), *chain.from_iterable(zip(repeat(size), items)))

    return encode


def _bytes_cells(values: FewValues) -> bytes:
    return _joined(values.items or [])


def _joined(items: Sequence[bytes | None]) -> bytes:
    return b"".join([_NULL if item is None else _pack_length(len(item)) + item for item in items])


def _text_cells(values: FewValues) -> bytes:
    texts = few_texts(values)
    column = values.column
    if column.is_nested and any(text is not None and "\x00" in text for text in texts):
        raise postgres_values.nul_in_text(column)
    return _joined([None if text is None else text.encode() for text in texts])


_CELLS: Mapping[str, _Encoder] = {
    "boolean": _number_cells("B"),
    **dict.fromkeys(("int8", "int16"), _number_cells("h")),
    **dict.fromkeys(("int32", "uint8", "uint16"), _number_cells("i")),
    **dict.fromkeys(("int64", "uint32", "time"), _number_cells("q")),
    "float32": _number_cells("f"),
    "float64": _number_cells("d"),
    **dict.fromkeys(("varchar", "json", "blob"), _bytes_cells),
}
