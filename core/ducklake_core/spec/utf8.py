"""Texts that are no UTF-8: Arrow lets an array of strings have any bytes, and so does Spark. Pure; runs everywhere.

`find_invalid_text` names the rows that have such a text, at any depth; `mended` makes texts of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, reduce
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from ducklake_core.errors import InvalidInput
from ducklake_core.spec.arrays import list_lengths, list_members, validity_of
from ducklake_core.spec.thresholds import CHECKED_TEXT_ROWS

Rows: TypeAlias = pa.Table | pa.RecordBatch

_SHOWN_BYTES = 32


def find_invalid_text(rows: Rows) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the place of each column that has a text which is no UTF-8, and which rows have one, a boolean for each."""
    if rows.num_rows <= CHECKED_TEXT_ROWS and _is_valid(rows):
        return
    for index, array in enumerate(rows.itercolumns()):
        chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        if any(map(_is_suspect, chunks)):
            flags = np.concatenate([invalid_rows(chunk) for chunk in chunks])
            if flags.any():
                yield index, flags


def refuse_invalid_text(rows: Rows, table_name: str | None, *, first_row: int = 0, of: str = "the data") -> None:
    """Raise InvalidInput that names the first column and row with a text that is no UTF-8; row numbers begin at 0.

    The rows may be some of more, of which `first_row` come before them; `table_name` None: they are for several tables.
    """
    for index, flags in find_invalid_text(rows):
        name, row = rows.schema.names[index], int(flags.argmax())
        shown = as_hex(next(_invalid_texts(rows.column(index).slice(row, 1)))[:_SHOWN_BYTES])
        target = "" if table_name is None else f" to '{table_name}'"
        raise InvalidInput(
            f"cannot write{target}: column '{name}' of row {first_row + row} of {of} has a text that is no "
            f"UTF-8 ({shown}): decode its bytes from the encoding they are in, or keep them in a column of type blob",
            table=table_name,
            column=name,
            row=first_row + row,
        )


def invalid_rows(array: pa.Array) -> np.ndarray:
    """Return one boolean per row: whether it has a text that is no UTF-8, at any depth."""
    array = _plain(array)
    if not _may_hold_text(array.type) or _is_valid(array):
        return np.zeros(len(array), bool)
    if _is_text(array.type):
        return np.fromiter((not _is_utf8(value) for value in _bytes_of(array)), bool, len(array))
    if pa.types.is_struct(array.type):
        return reduce(np.logical_or, map(invalid_rows, array.flatten()))
    owners = np.repeat(np.arange(len(array)), list_lengths(array))
    flags = np.zeros(len(array), bool)
    for members in list_members(array):
        flags[owners[invalid_rows(members)]] = True
    return flags


def mended(array: pa.Array, mend: Callable[[bytes], str]) -> pa.Array:
    """Return the array with a text made of each value that is none, at any depth."""
    if isinstance(array, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(array.type, mended(array.storage, mend))
    array = _plain(array)
    if not _may_hold_text(array.type) or _is_valid(array):
        return array
    if _is_text(array.type):
        texts = [_text_of(value, mend) for value in _bytes_of(array)]
        return pa.array(texts, array.type)
    if pa.types.is_struct(array.type):
        children = [mended(child, mend) for child in array.flatten()]
        return pa.StructArray.from_arrays(children, fields=list(array.type), mask=array.is_null())
    offsets = pa.array(np.concatenate(([0], np.cumsum(list_lengths(array)))), pa.int32())
    members = [mended(one, mend) for one in list_members(array)]
    kind = pa.MapArray if pa.types.is_map(array.type) else pa.ListArray
    return kind.from_arrays(offsets, *members, type=array.type, mask=pa.array(~validity_of(array)))


def as_hex(value: bytes) -> str:
    """Return bytes in a form that no text of ours has by chance: `0x` and their digits."""
    return f"0x{value.hex()}"


def with_replacements(value: bytes) -> str:
    """Return a text with U+FFFD, the replacement character, where bytes are none."""
    return value.decode(errors="replace")


def _invalid_texts(array: pa.Array | pa.ChunkedArray) -> Iterator[bytes]:
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        found: list[bytes] = []

        def keep(value: bytes, found: list[bytes] = found) -> str:
            found.append(value)
            return ""

        mended(chunk, keep)
        yield from found


def _is_valid(rows: Rows | pa.Array) -> bool:
    """Tell that every text is UTF-8. Who hears no must look closer: Arrow minds other things, and values of no row."""
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _is_suspect(array: pa.Array) -> bool:
    """Tell whether there may be a text that is no UTF-8. ASCII, which most text is, is known by a look at all bytes."""
    if not _may_hold_text(array.type):
        return False
    if isinstance(array, pa.ExtensionArray):
        return _is_suspect(array.storage)
    if pa.types.is_string(array.type):
        return len(array) > 0 and not (_is_ascii(array) or _is_valid(array))
    if pa.types.is_struct(array.type):
        return any(_is_suspect(array.field(index)) for index in range(array.type.num_fields))
    if pa.types.is_map(array.type):
        return _is_suspect(array.keys) or _is_suspect(array.items)
    return _is_suspect(array.values) if pa.types.is_list(array.type) else not _is_valid(array)


def _is_ascii(array: pa.Array) -> bool:
    _, offsets, data = array.buffers()
    first, last = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)[[0, -1]]
    return first == last or int(np.frombuffer(data, np.int8, last - first, first).min()) >= 0


@lru_cache(maxsize=1024)
def _may_hold_text(type_: pa.DataType) -> bool:
    if isinstance(type_, pa.BaseExtensionType):
        return _may_hold_text(type_.storage_type)
    if pa.types.is_dictionary(type_):
        return _may_hold_text(type_.value_type)
    return _is_text(type_) or any(_may_hold_text(type_.field(index).type) for index in range(type_.num_fields))


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _plain(array: pa.Array) -> pa.Array:
    """Return the storage of an extension array, the values of a dictionary, and a list of small offsets."""
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    if pa.types.is_large_list(array.type) or pa.types.is_fixed_size_list(array.type):
        return array.cast(pa.list_(array.type.value_field))
    return array


def _bytes_of(array: pa.Array) -> list[bytes | None]:
    return array.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return] # pyarrow is not annotated


def _is_utf8(value: bytes | None) -> bool:
    try:
        _ = value is None or value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text_of(value: bytes | None, mend: Callable[[bytes], str]) -> str | None:
    if value is None:
        return None
    return value.decode() if _is_utf8(value) else mend(value)
