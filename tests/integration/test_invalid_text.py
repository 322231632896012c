"""A text that is no UTF-8 gets into no lake; and where one is already, everything else can be read, and it mended."""

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ducklake_core import Lake
from ducklake_core.catalog.postgres import page_reader
from ducklake_core.errors import InvalidInput
from ducklake_core.files.parquet_writer import write_data_files
from ducklake_core.read.sharing import SliceLimits
from ducklake_core.read.slices import read_slice
from ducklake_core.row_writes import file_layout
from ducklake_core.spec.options import TableOptions
from ducklake_core.text_repair import log_once
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import stored_files
from tests.fixtures.invalid_text import BROKEN, INVALID, MENDED, break_files, break_inlined, texts
from tests.fixtures.oracle import Oracle
from tests.fixtures.pairs import attach

TYPES = {
    "s": "varchar",
    "j": "json",
    "l": "varchar[]",
    "m": "map(varchar, varchar)",
    "n": "struct(a struct(b varchar))",
}


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    log_once.cache_clear()
    with Lake.create(catalog.url, catalog.data_path) as lake:
        yield lake


# ------------------------------------------------------------------------------------------------ the way in


def columns_with(broken: pa.Array, good: pa.Array) -> dict[str, pa.Array]:
    """Return for each place that a text can be at a column of as many rows, with the broken texts there."""
    count = len(good)
    offsets = pa.array(range(count + 1), pa.int32())

    def nested(values: pa.Array) -> pa.Array:
        return pa.StructArray.from_arrays([pa.StructArray.from_arrays([values], ["b"])], ["a"])

    return {
        "string": broken,
        "large string": broken.cast(pa.large_string()),
        "string view": broken.cast(pa.string_view()),
        "dictionary": broken.dictionary_encode(),
        "json": pa.ExtensionArray.from_storage(pa.json_(), broken),
        "list": pa.ListArray.from_arrays(offsets, broken),
        "map key": pa.MapArray.from_arrays(offsets, broken, good),
        "map value": pa.MapArray.from_arrays(offsets, good, broken),
        "struct": nested(broken),
    }


PLACES = {
    "string": "s",
    "large string": "s",
    "string view": "s",
    "dictionary": "s",
    "json": "j",
    "list": "l",
    "map key": "m",
    "map value": "m",
    "struct": "n",
}


@pytest.mark.parametrize("count", [5, 3000], ids=["inlined", "file"])
@pytest.mark.parametrize("place", PLACES)
def test_it_is_refused_by_column_and_row_wherever_it_is(lake: Lake, catalog: Catalog, place: str, count: int) -> None:
    name = PLACES[place]
    lake.create_table("t", {"id": "int64", name: TYPES[name]})
    values = [b"a", *[b"c"] * (count - 2), BROKEN]
    column = columns_with(texts(*values), pa.array(["a"] * count))[place]
    before = catalog.dump()

    with pytest.raises(InvalidInput, match=rf"'main\.t': column '{name}' of row {count - 1} .*0x62ff64") as caught:
        lake.append("t", pa.table({"id": pa.array(range(count)), name: column}))

    assert (caught.value.column, caught.value.row) == (name, count - 1)
    assert catalog.dump() == before
    assert stored_files(catalog) == set()


@pytest.mark.parametrize("broken", INVALID, ids=str)
def test_whatever_is_no_utf8_is_refused(lake: Lake, broken: bytes) -> None:
    lake.create_table("t", {"s": "varchar"})

    for values in ([b"a", broken, b"z"], [broken], [b"\xc3", b"\xa9"]):
        with pytest.raises(InvalidInput, match="no UTF-8"):
            lake.append("t", pa.table({"s": texts(*values)}))


def test_what_no_row_reaches_is_no_reason(lake: Lake) -> None:
    lake.create_table("t", {"s": "varchar", "l": "varchar[]", "n": "struct(x varchar)", "at": "time"})
    lists = pa.ListArray.from_arrays([0, 1, 2], texts(BROKEN, b"x")).slice(1)
    structs = pa.StructArray.from_arrays([texts(BROKEN)], ["x"], mask=pa.array([True]))
    midnight = pa.array([86_400_000_000]).view(pa.time64("us"))  # the end of a day, which Arrow's validation minds

    lake.append("t", pa.table({"s": texts(BROKEN, b"y").slice(1), "l": lists, "n": structs, "at": midnight}))

    row = lake.table("t").read(["s", "l", "n"]).to_pylist()
    assert row == [{"s": "y", "l": ["x"], "n": None}]


def test_columns_in_another_order_and_updates_are_looked_at_too(lake: Lake) -> None:
    lake.create_table("t", {"id": "int64", "s": "varchar"})
    lake.append("t", {"id": [1], "s": ["a"]})

    with pytest.raises(InvalidInput, match="column 's' of row 1 "):
        lake.append("t", pa.table({"S": texts(b"a", BROKEN), "id": [1, 2]}))
    with pytest.raises(InvalidInput, match="column 's' of row 0 "):
        lake.update("t", {"s": pc.scalar(texts(BROKEN)[0])})

    assert lake.table("t").read().to_pylist() == [{"id": 1, "s": "a"}]


def test_files_written_elsewhere_hold_none(lake: Lake, catalog: Catalog) -> None:
    lake.create_table("t", {"s": "varchar"})
    layout = file_layout(lake.table("t").version, TableOptions())

    with pytest.raises(InvalidInput, match="column 's' of row 1 "):
        write_data_files(lake.storage, layout, pa.table({"s": texts(b"a", BROKEN)}))

    assert stored_files(catalog) == set()


@pytest.mark.parametrize("partition_by", ["s", "bucket(4, s)"])
def test_it_is_no_value_of_a_partition(lake: Lake, partition_by: str) -> None:
    lake.create_table("t", {"s": "varchar"}, partition_by=[partition_by])

    with pytest.raises(InvalidInput, match="column 's' of row 39 "):
        lake.append("t", pa.table({"s": texts(*[b"a"] * 39, BROKEN)}))


def test_a_text_for_another_type_that_is_no_utf8_does_not_fit(lake: Lake) -> None:
    lake.create_table("t", {"u": "uuid"})

    with pytest.raises(Exception, match=r"main\.t\.u.*does not fit"):
        lake.append("t", pa.table({"u": texts(BROKEN)}))


HALF = "a\ud800"
ACTS: dict[str, Any] = {
    "rows": lambda lake: lake.append("t", [{"s": HALF}]),
    "columns": lambda lake: lake.append("t", {"s": [HALF]}),
    "update": lambda lake: lake.update("t", {"s": HALF}),
    "default": lambda lake: lake.set_default("t", "s", HALF),
    "comment": lambda lake: lake.set_comment("t", HALF),
    "table": lambda lake: lake.create_table(f'"{HALF}"', {"i": "int64"}),
    "schema": lambda lake: lake.create_schema(HALF),
    "column": lambda lake: lake.add_column("t", HALF, "int64"),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_half_a_character_of_python_is_refused(lake: Lake, act: Any) -> None:
    lake.create_table("t", {"s": "varchar"})
    lake.append("t", {"s": ["a"]})

    with pytest.raises(InvalidInput):
        act(lake)


# ----------------------------------------------------------------------------------------- what is there already


@pytest.fixture
def poisoned(lake: Lake, catalog: Catalog) -> Lake:
    """Give a lake with a table of inlined rows, one of which has a text that is no UTF-8."""
    lake.create_table("t", {"id": "int64", "s": "varchar"})
    lake.append("t", {"id": [1, 2, 3], "s": ["a", "b", "z"]})
    break_inlined(catalog, "ducklake_inlined_data_1_1", "s", "id = 2")
    return lake


def rows_of(lake: Lake) -> list[tuple[int, str]]:
    return sorted((row["id"], row["s"]) for row in lake.table("t").read().to_pylist())


def test_inlined_one_is_read_with_replacement_characters(poisoned: Lake, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert rows_of(poisoned) == [(1, "a"), (2, MENDED), (3, "z")]
        assert poisoned.table("t").read(filter="id > 2").to_pylist() == [{"id": 3, "s": "z"}]
        assert poisoned.table("t").count(f"s = '{MENDED}'") == 1
        changes = poisoned.changes("t", 0).to_pylist()

    assert sorted((row["id"], row["s"]) for row in changes) == rows_of(poisoned)
    [warning] = [record for record in caplog.records if "invalid_text_replaced" in record.getMessage()]
    assert warning.levelno == logging.WARNING
    assert "column=s" in warning.getMessage()


@pytest.mark.parametrize("limits", [SliceLimits(), SliceLimits(shipped_rows=0, count=2)], ids=["shipped", "catalog"])
def test_inlined_one_is_read_in_slices(poisoned: Lake, limits: SliceLimits) -> None:
    slices = poisoned.table("t").slices(limits=limits)

    found = [row for one in slices for batch in read_slice(one) for row in batch.to_pylist()]

    assert sorted((row["id"], row["s"]) for row in found) == [(1, "a"), (2, MENDED), (3, "z")]


def test_flush_mends_it_and_duckdb_reads_the_table_again(poisoned: Lake, catalog: Catalog, oracle: Oracle) -> None:
    poisoned.flush_inlined("t")

    assert rows_of(poisoned) == [(1, "a"), (2, MENDED), (3, "z")]
    attach(oracle, catalog, "lake")
    assert oracle.query("SELECT id, s FROM lake.t ORDER BY id") == [(1, "a"), (2, MENDED), (3, "z")]
    assert oracle.query(f"SELECT id FROM lake.t WHERE s = '{MENDED}'") == [(2,)]


@pytest.mark.parametrize("text", [BROKEN, b"\xfe", b"\xfe\xfe", b"\xff"], ids=bytes.hex)
def test_flush_by_pages_mends_it(
    poisoned: Lake, catalog: Catalog, oracle: Oracle, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    """Also where it is what the server joins values with, and a null stands for."""
    monkeypatch.setattr(page_reader, "MIN_PAGES", 1)
    break_inlined(catalog, "ducklake_inlined_data_1_1", "s", "id = 2", text)

    poisoned.flush_inlined("t")

    attach(oracle, catalog, "lake")
    mended = text.decode(errors="replace")
    assert oracle.query("SELECT id, s FROM lake.t ORDER BY id") == [(1, "a"), (2, mended), (3, "z")]


def test_rows_beside_it_are_changed_as_ever(poisoned: Lake) -> None:
    poisoned.update("t", {"s": "c"}, "id = 1")
    poisoned.update("t", {"id": 20}, "id = 2")
    poisoned.delete("t", "id = 3")

    assert rows_of(poisoned) == [(1, "c"), (20, MENDED)]


def test_file_that_has_one_is_read_with_replacement_characters(
    lake: Lake, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    lake.set_option("parquet_compression", "uncompressed")
    lake.create_table("t", {"id": "int64", "s": "varchar", "l": "varchar[]", "m": "map(varchar, int64)"})
    middle = [{"id": 2, "s": "bad", "l": ["x", "bad"], "m": [("bad", 2)]}]
    others = [{"id": id_, "s": "a", "l": ["x", None], "m": [("k", 1)]} for id_ in range(10, 50)]
    lake.append("t", pa.Table.from_pylist([*middle, *others], lake.table("t").schema))
    break_files(catalog, b"bad")

    with caplog.at_level(logging.WARNING):
        assert lake.table("t").read(filter="id = 2").to_pylist() == [
            {"id": 2, "s": MENDED, "l": ["x", MENDED], "m": [(MENDED, 2)]}
        ]
        assert lake.table("t").read(["s"]).column("s").to_pylist().count("a") == 40
        assert lake.changes("t", 0).column("l").to_pylist().count(["x", MENDED]) == 1
        lake.update("t", {"id": 3}, "id = 2")

    assert lake.table("t").read(["s"], "id = 3").to_pylist() == [{"s": MENDED}]
    warned = [r.getMessage() for r in caplog.records if "invalid_text_replaced" in r.getMessage()]
    assert sorted(line.rpartition("column=")[2] for line in warned) == ["l", "m", "s"]
    assert all(".parquet" in line for line in warned)
