"""Binary cells are those psycopg would send, whatever the values, nulls, slices and chunks."""

import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from psycopg import adapt, postgres
from psycopg.types import numeric

from ducklake_core.catalog.postgres.copy_decode import split_rows
from ducklake_core.catalog.postgres.encode import (
    Cells,
    constant_cells,
    copy_buffer,
    encode_column,
    int64_cells,
    postgres_type,
    select_cast,
)
from ducklake_core.catalog.postgres.rules import POSTGRES_RULES
from ducklake_core.errors import CorruptCatalog, UnsupportedType
from ducklake_core.spec.inlined import find_unstorable
from ducklake_core.spec.text import to_text
from tests.fixtures.values import SCALAR_TYPES, arrays, column_of, columns, raw_array, sample_array, type_nodes

TEXTS = (
    "uint64",
    "int128",
    "uint128",
    "date",
    "timestamp",
    "timestamp_s",
    "timestamp_ms",
    "timestamp_ns",
    "timestamptz",
)


def split(cells: Cells) -> list[bytes | None]:
    """Take cells apart again."""
    data = cells.data.tobytes()
    return list(_parts(data, cells.count))


def _parts(data: bytes, count: int) -> Iterator[bytes | None]:
    position = 0
    for _ in range(count):
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        yield None if length < 0 else data[position : position + length]
        position += max(length, 0)
    assert position == len(data)


def integer(width: int) -> Callable[[Any], bytes]:
    return lambda value: int(value).to_bytes(width, "big", signed=True)


def numeric_bytes(value: Decimal) -> bytes:
    """Return psycopg's binary numeric."""
    dumper = numeric.DecimalBinaryDumper(Decimal, adapt.Transformer())
    return bytes(dumper.dump(value) or b"")


def numeric_value(data: bytes) -> Decimal:
    """Return what psycopg reads from a binary numeric."""
    loader = numeric.NumericBinaryLoader(postgres.types["numeric"].oid, adapt.Transformer())
    return loader.load(data)


BINARY: dict[str, Callable[[Any], bytes]] = {
    "boolean": lambda value: b"\x01" if value else b"\x00",
    **dict.fromkeys(("int8", "int16"), integer(2)),
    **dict.fromkeys(("int32", "uint8", "uint16"), integer(4)),
    **dict.fromkeys(("int64", "uint32"), integer(8)),
    "float32": lambda value: struct.pack(">f", value),
    "float64": lambda value: struct.pack(">d", value),
    "varchar": str.encode,
    "json": str.encode,
    "blob": bytes,
    "uuid": bytes,
}


def storage(array: pa.Array) -> list[Any]:
    plain = array.storage if isinstance(array, pa.ExtensionArray) else array
    return list(plain.to_pylist())


@pytest.mark.parametrize("type_", list(BINARY))
@given(data=st.data())
def test_cells_hold_each_value_in_network_order(type_: str, data: st.DataObject) -> None:
    array = data.draw(arrays(column_of(type_), data.draw(st.integers(0, 9))))

    cells = encode_column(array, column_of(type_))

    assert split(cells) == [None if v is None else BINARY[type_](v) for v in storage(array)]


@pytest.mark.parametrize("type_", [t for t in SCALAR_TYPES if t.startswith("decimal")])
@given(data=st.data())
def test_numeric_cells_are_read_by_psycopg_as_the_same_decimals(type_: str, data: st.DataObject) -> None:
    array = data.draw(arrays(column_of(type_), data.draw(st.integers(0, 9))))

    cells = split(encode_column(array, column_of(type_)))

    assert [None if cell is None else numeric_value(cell) for cell in cells] == array.to_pylist()


def test_a_number_that_fills_its_groups_has_psycopgs_very_bytes() -> None:
    (cell,) = split(encode_column(raw_array([Decimal("-1234.5678")], "decimal(8,4)"), column_of("decimal(8,4)")))

    assert cell == numeric_bytes(Decimal("-1234.5678"))


@pytest.mark.parametrize("type_", TEXTS)
def test_types_that_postgresql_lacks_are_texts(type_: str) -> None:
    column = column_of(type_)
    texts = to_text(sample_array(type_), column).to_pylist()

    assert split(encode_column(sample_array(type_), column)) == [t if t is None else t.encode() for t in texts]


def test_times_and_intervals_have_postgresqls_layout() -> None:
    time = encode_column(raw_array([86400000000, None], "time"), column_of("time"))
    timetz = encode_column(raw_array(["01:00:00.5+02", None], "timetz"), column_of("timetz"))
    interval = encode_column(raw_array([pa.MonthDayNano((14, -3, -5000))], "interval"), column_of("interval"))

    assert split(time) == [struct.pack(">q", 86400000000), None]
    assert split(timetz) == [struct.pack(">qi", 3600500000, -7200), None]
    assert split(interval) == [struct.pack(">qii", -5, -3, 14)]


@given(st.data())
def test_slices_and_chunks_make_the_same_cells(data: st.DataObject) -> None:
    column = data.draw(
        columns(type_nodes(["int32", "varchar", "boolean", "decimal(18,4)", "uuid", "interval", "float64"]))
    )
    array = data.draw(arrays(column, 5))
    assume(find_unstorable(pa.table({"c": array}), (column,), POSTGRES_RULES) is None)  # rows like that go to a file
    whole = split(encode_column(array, column))

    assert split(encode_column(array.slice(2, 2), column)) == whole[2:4]
    assert split(encode_column(pa.chunked_array([array.slice(0, 3), array.slice(3)]), column)) == whole


@given(st.data())
def test_a_copy_holds_the_rows_of_all_columns(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 5))
    chosen = [column_of(data.draw(st.sampled_from(["int32", "varchar", "boolean", "float64"]))) for _ in range(4)]
    cells = [encode_column(data.draw(arrays(column, count)), column) for column in chosen]
    cells.insert(data.draw(st.integers(0, 4)), constant_cells(None, count))

    buffer = copy_buffer(cells)

    header, body, trailer = buffer[:19], buffer[19:-2], buffer[-2:]
    assert header == b"PGCOPY\n\xff\r\n\0" + bytes(8)
    assert trailer == b"\xff\xff"
    assert rows_of(body, len(cells)) == list(zip(*map(split, cells), strict=True))


def rows_of(body: bytes, width: int) -> list[tuple[bytes | None, ...]]:
    rows = []
    while body:
        assert struct.unpack_from(">h", body) == (width,)
        cells = []
        body = body[2:]
        for _ in range(width):
            (length,) = struct.unpack_from(">i", body)
            cells.append(None if length < 0 else body[4 : 4 + length])
            body = body[4 + max(length, 0) :]
        rows.append(tuple(cells))
    return rows


def test_row_ids_and_constants() -> None:
    assert split(int64_cells(np.array([7, -1]))) == [struct.pack(">q", 7), struct.pack(">q", -1)]
    assert split(constant_cells(5, 2)) == [struct.pack(">q", 5)] * 2
    assert split(constant_cells(None, 2)) == [None, None]


def test_a_nul_inside_a_container_is_refused_since_a_text_cannot_hold_it() -> None:
    column = column_of("varchar[]", "tags")

    with pytest.raises(UnsupportedType, match="tags"):
        encode_column(pa.array([["a\0b"]]), column)


def test_an_interval_finer_than_a_microsecond_is_refused() -> None:
    with pytest.raises(UnsupportedType):
        encode_column(raw_array([pa.MonthDayNano((0, 0, 1))], "interval"), column_of("interval"))


@pytest.mark.parametrize("type_", [t for t in SCALAR_TYPES if t != "time_ns"])
def test_types_are_known_to_psycopg(type_: str) -> None:
    ours = postgres_type(column_of(type_))

    theirs = postgres.types.get(ours.oid)

    assert theirs is not None
    assert theirs.oid == ours.oid


def test_cells_of_a_copy_are_found_again() -> None:
    columns = [column_of("int64", "a"), column_of("varchar", "b"), column_of("boolean", "c")]
    arrays = [pa.array([1, None, 3]), pa.array(["", "x\0y", None]), pa.array([None, True, False])]
    cells = [encode_column(array, column) for array, column in zip(arrays, columns, strict=True)]
    encoded = copy_buffer(cells)
    ends = [19, *(19 + e for e in np.cumsum([2 + 12 + 4 + 4, 2 + 4 + 7 + 5, 2 + 12 + 4 + 5]))]
    messages = [encoded[: ends[1]], encoded[ends[1] : ends[2]], encoded[ends[2] : ends[3]], encoded[ends[3] :]]

    [rows] = split_rows(messages, 3, 1000)

    for index, (array, column) in enumerate(zip(arrays, columns, strict=True)):
        assert rows.array(index, column).equals(array)


def test_a_chunk_is_as_large_as_asked_for() -> None:
    cells = encode_column(pa.array(range(2500)), column_of("int64"))
    encoded = copy_buffer([cells])
    messages = [encoded[:33], *(encoded[i : i + 14] for i in range(33, len(encoded) - 2, 14)), encoded[-2:]]

    chunks = list(split_rows(messages, 1, 1000 * 14))

    assert [chunk.count for chunk in chunks] == [1000, 1000, 500]
    assert np.concatenate([chunk.int64s(0) for chunk in chunks]).tolist() == list(range(2500))


def test_a_chunk_of_large_rows_is_not_larger_than_asked_for() -> None:
    texts = [f"{i:06}" * 10_000 for i in range(40)]
    encoded = copy_buffer([encode_column(pa.array(texts), column_of("varchar"))])
    messages = [encoded[:19], *(encoded[i : i + 60_006] for i in range(19, len(encoded) - 2, 60_006)), encoded[-2:]]

    chunks = list(split_rows(messages, 1, 600_000))

    assert [chunk.count for chunk in chunks] == [10, 10, 10, 10]
    assert [text for chunk in chunks for text in chunk.array(0, column_of("varchar")).to_pylist()] == texts


def test_more_bytes_than_arrow_has_offsets_for(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = copy_buffer([encode_column(pa.array(["x" * 1000, "y" * 3000]), column_of("varchar"))])
    messages = [encoded[: 19 + 1006], encoded[19 + 1006 : -2], encoded[-2:]]
    monkeypatch.setattr("ducklake_core.catalog.postgres.copy_decode._MAX_BYTES", 4500)
    assert [chunk.count for chunk in split_rows(messages, 1, 2**40)] == [2]

    monkeypatch.setattr("ducklake_core.catalog.postgres.copy_decode._MAX_BYTES", 2500)
    with pytest.raises(UnsupportedType, match="more than 2500 cannot be read"):
        list(split_rows(messages, 1, 2**40))


def test_rows_of_other_columns_are_refused() -> None:
    encoded = copy_buffer([encode_column(pa.array([1]), column_of("int64"))])

    with pytest.raises(CorruptCatalog, match="not of 2 columns"):
        list(split_rows([encoded[:-2], encoded[-2:]], 2, 100))


def test_a_copy_without_rows() -> None:
    assert list(split_rows([copy_buffer([encode_column(pa.array([], pa.int64()), column_of("int64"))])], 1, 100)) == []


def test_what_a_select_casts() -> None:
    assert select_cast(column_of("decimal(9,2)")) == "text"
    assert select_cast(column_of("int32")) is None
