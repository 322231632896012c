"""Many rows of PostgreSQL are read by pages: the same versions as by a sorted COPY, in order as far as they lie so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.catalog.inlined_reader import read_row_versions
from ducklake_core.catalog.postgres import page_reader
from ducklake_core.catalog.postgres.session import on_postgres
from ducklake_core.catalog.row_versions import RowVersions
from ducklake_core.files.flush_writer import FlushWriter
from ducklake_core.spec.text import to_text
from tests.fixtures.postgres import PostgresDatabase
from tests.fixtures.values import SCALAR_TYPES, sample_array

SMALL_CHUNK = 100_000
NESTED = {"s": "struct(a varchar[], b float64)", "m": "map(varchar, date)", "l": "varchar[]"}


@pytest.fixture
def lake(postgres_database: PostgresDatabase, tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(postgres_database.url, f"{tmp_path}/data/") as lake:
        lake.set_option("data_inlining_row_limit", 100_000)
        yield lake


def read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, by_pages: bool, chunk_bytes: int = SMALL_CHUNK
) -> tuple[list[RowVersions], list[tuple[object, ...]]]:
    """Return the chunks of table t, and the texts of all its row versions with their numbers."""
    monkeypatch.setattr(page_reader, "MIN_PAGES", 1 if by_pages else 2**31)
    [inlined] = lake.table("t").version.inlined_tables
    head = lake.snapshots()[-1].snapshot_id
    chunks = list(read_row_versions(lake.database, inlined, head, chunk_bytes))
    rows = pa.concat_tables([chunk.rows for chunk in chunks])
    numbers = [np.concatenate([getattr(c, name) for c in chunks]).tolist() for name in ("row_ids", "begins", "ends")]
    texts = [to_text(rows.column(c.name), c).to_pylist() for c in inlined.columns]
    return chunks, list(zip(*numbers, *texts, strict=True))


def same_both_ways(lake: Lake, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int = SMALL_CHUNK) -> None:
    _, expected = read(lake, monkeypatch, by_pages=False, chunk_bytes=chunk_bytes)
    _, found = read(lake, monkeypatch, by_pages=True, chunk_bytes=chunk_bytes)
    assert found == expected


def repeated(array: pa.Array, count: int) -> pa.Array:
    return array.take(pa.array([n % len(array) for n in range(count)]))


@pytest.mark.parametrize("nullable", [True, False], ids=["nulls", "no nulls"])
def test_every_type(lake: Lake, monkeypatch: pytest.MonkeyPatch, *, nullable: bool) -> None:
    samples = {type_: sample_array(type_) for type_ in SCALAR_TYPES if type_ != "time_ns"}
    if not nullable:
        samples = {type_: array.drop_null() for type_, array in samples.items()}
    lake.create_table("t", {f"c{i}": type_ for i, type_ in enumerate(samples)})
    lake.append("t", pa.table({f"c{i}": repeated(array, 1000) for i, array in enumerate(samples.values())}))

    same_both_ways(lake, monkeypatch)


def test_nested_values(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_table("t", NESTED)
    structs: list[object] = [
        {"a": ["x", None, "it's"], "b": 1.5},
        None,
        {"a": [], "b": None},
        {"a": None, "b": float("nan")},
    ]
    maps = [[("k", 0), ("=", None)], None, []]
    lists = [["a, b", ""], [None], None, ["back\\slash"]]
    count = 2000
    lake.append(
        "t",
        pa.table(
            {
                "s": pa.array([structs[n % 4] for n in range(count)]),
                "m": pa.array([maps[n % 3] for n in range(count)], pa.map_(pa.string(), pa.date32())),
                "l": pa.array([lists[n % 4] for n in range(count)]),
            }
        ),
    )

    same_both_ways(lake, monkeypatch)


@pytest.mark.parametrize("text", ["\x01", "\x02", "a\x01b", "\x02\x02", "", "\x00", "þÿ"])
def test_texts_with_the_bytes_that_are_between_texts(lake: Lake, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    nested = text.replace("\x00", "")  # which PostgreSQL cannot store
    lake.create_table("t", {"v": "varchar", "l": "varchar[]", "b": "blob"})
    values = ["x", text, None] * 500
    lists = [["x"], [nested], None] * 500
    lake.append(
        "t", pa.table({"v": values, "l": lists, "b": [None if v is None else v.encode("latin-1") for v in values]})
    )

    same_both_ways(lake, monkeypatch)


def test_bytes_that_are_no_text_are_replaced_both_ways(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_table("t", {"v": "varchar"})
    lake.append("t", {"v": ["x"] * 100})
    with psycopg.connect(lake.database.url.url.render_as_string().replace("+psycopg", "")) as connection:
        connection.execute(r"UPDATE ducklake_inlined_data_1_1 SET v = '\xff' WHERE row_id = 50")

    for by_pages in (False, True):
        chunks, _ = read(lake, monkeypatch, by_pages=by_pages)
        values = [value for chunk in chunks for value in chunk.rows.column("v").to_pylist()]
        assert sorted(values) == ["x"] * 99 + ["\ufffd"]


def test_nulls_that_come_late(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_table("t", {"i": "int64", "b": "boolean", "d": "float64"})
    numbers = list(range(20_000))
    late = [None if n == 15_000 else n for n in numbers]
    lake.append("t", pa.table({"i": late, "b": [n is not None for n in late], "d": pa.array([None] * 20_000, "f8")}))
    lake.append("t", {"i": [1], "b": [None], "d": [1.0]})

    same_both_ways(lake, monkeypatch)


def test_a_column_of_nothing_but_nulls(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_table("t", {"i": "int64"})
    lake.append("t", pa.table({"i": pa.array([None] * 100, pa.int64())}))

    same_both_ways(lake, monkeypatch)


def test_what_was_updated_comes_sorted_after_what_lies_in_order(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_table("t", {"i": "int64", "s": "varchar"})
    for batch in range(5):
        lake.append("t", pa.table({"i": range(1000 * batch, 1000 * batch + 1000), "s": ["x" * 100] * 1000}))
    lake.update("t", {"s": "y"}, "i IN (1007, 2007, 3007, 4007, 4999)")
    lake.delete("t", "i = 4500")
    _, expected = read(lake, monkeypatch, by_pages=False)

    chunks, found = read(lake, monkeypatch, by_pages=True)

    assert sorted(found, key=repr) == sorted(expected, key=repr)
    runs = 1 + int(np.count_nonzero(np.diff(np.concatenate([chunk.row_ids for chunk in chunks])) < 0))
    assert runs == 2
    assert (np.diff(chunks[0].row_ids) >= 0).all()


def test_what_fits_one_chunk_is_always_in_order(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_table("t", {"i": "int64"})
    lake.append("t", pa.table({"i": range(5000)}))
    lake.update("t", {"i": 0}, "i IN (3, 33, 333)")

    same_both_ways(lake, monkeypatch, chunk_bytes=10**7)


def test_room_that_was_given_back_is_filled_in_any_order(
    lake: Lake, postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create_table("t", {"i": "int64", "s": "varchar"})
    for batch in range(3):
        lake.append("t", pa.table({"i": range(1000), "s": ["x" * (50 + batch)] * 1000}))
    lake.flush_inlined("t")
    with psycopg.connect(postgres_database.conninfo, autocommit=True) as connection:
        connection.execute("VACUUM ducklake_inlined_data_1_1")
    for batch in range(5):
        lake.append("t", pa.table({"i": range(500), "s": [f"{batch}"] * 500}))

    _, expected = read(lake, monkeypatch, by_pages=False)
    _, found = read(lake, monkeypatch, by_pages=True)

    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_large_values_are_not_read_by_pages(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_table("t", {"s": "blob"})
    noise = np.random.default_rng(1).bytes(20_000)
    lake.append("t", {"s": [noise] * 20})
    monkeypatch.setattr(page_reader, "MIN_PAGES", 1)

    with lake.database.read() as session:
        assert page_reader.count_pages(on_postgres(session), "ducklake_inlined_data_1_1", 1) == 0
    same_both_ways(lake, monkeypatch)


def test_chunks_are_about_as_large_as_asked_for(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_table("t", {"i": "int64", "s": "varchar"})
    lake.append("t", pa.table({"i": range(30_000), "s": [f"{i:0100}" for i in range(30_000)]}))

    chunks, _ = read(lake, monkeypatch, by_pages=True, chunk_bytes=500_000)

    assert len(chunks) > 4
    assert max(chunk.rows.nbytes for chunk in chunks) < 1_000_000


@pytest.mark.parametrize("chunk_bytes", [200_000, 2**22], ids=["a page is too large", "a block is too large"])
def test_values_that_are_compressed_make_no_chunk_too_large(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    """A page of them has some 450 kB; a block of pages with other rows before them, some 10 MB."""
    lake.create_table("t", {"s": "varchar", "l": "varchar[]"})
    for text, count in (("x", 10_000), *[("y" * 10_000, 50)] * 20, ("z", 10_000)):
        lake.append("t", pa.table({"s": [text] * count, "l": pa.nulls(count, pa.list_(pa.string()))}))
    assert lake.inlined_state("t").rows == 21_000

    chunks, found = read(lake, monkeypatch, by_pages=True, chunk_bytes=chunk_bytes)

    assert max(chunk.rows.nbytes for chunk in chunks) < 1.5 * chunk_bytes
    assert found == read(lake, monkeypatch, by_pages=False, chunk_bytes=chunk_bytes)[1]


def test_a_block_may_have_as_many_columns_as_postgresql_lets_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_table("t", {f"c{i}": "varchar" for i in range(800)})
    lake.append("t", pa.table({f"c{i}": ["x"] * 30 for i in range(800)}))

    same_both_ways(lake, monkeypatch)


@pytest.mark.parametrize(
    ("step", "block_bytes", "expected"),
    [(1, 8_000, 2), (16, 2**17, 32), (32, 2**18, 32), (64, 0, 64), (32, 2**22, 2), (1, 2**30, 1)],
    ids=["first", "small", "right", "empty", "too large", "one page"],
)
def test_blocks_follow_what_pages_hold(step: int, block_bytes: int, expected: int) -> None:
    assert page_reader.next_step(step, block_bytes) == expected


def test_a_flush_by_pages_leaves_what_a_reader_sees(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_reader, "MIN_PAGES", 1)
    lake.create_table("t", {"i": "int64", "s": "varchar"})
    for batch in range(4):
        lake.append("t", pa.table({"i": range(1000 * batch, 1000 * batch + 1000), "s": ["x" * 100] * 1000}))
    lake.update("t", {"s": "y"}, "i IN (7, 507, 1507, 3507)")
    lake.delete("t", "i >= 3990")
    snapshots = [s.snapshot_id for s in lake.snapshots()][2:]
    before = {at: sorted(map(repr, lake.table("t", at=at).read().to_pylist())) for at in snapshots}

    result = lake.flush_inlined("t", memory_bytes=20 * SMALL_CHUNK)

    assert (result.rows, result.data_files) == (4004, 1)
    assert {at: sorted(map(repr, lake.table("t", at=at).read().to_pylist())) for at in snapshots} == before


@pytest.mark.parametrize("by_pages", [True, False], ids=["pages", "copy"])
def test_a_write_that_fails_is_what_is_told_and_ends_the_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, by_pages: bool
) -> None:
    monkeypatch.setattr(page_reader, "MIN_PAGES", 1 if by_pages else 2**31)
    lake.create_table("t", {"i": "int64", "s": "varchar"})
    lake.append("t", pa.table({"i": range(20_000), "s": ["x" * 100] * 20_000}))
    write = FlushWriter.write
    calls: list[object] = []

    def fail_later(*arguments: Any) -> None:  # Any: only passed on
        calls.append(arguments)
        if len(calls) > 2:
            raise OSError("no space left on device")
        write(*arguments)

    monkeypatch.setattr(FlushWriter, "write", fail_later)
    with pytest.raises(OSError, match="no space left"):
        lake.flush_inlined("t", memory_bytes=20 * SMALL_CHUNK)

    monkeypatch.setattr(FlushWriter, "write", write)
    assert lake.flush_inlined("t", memory_bytes=20 * SMALL_CHUNK).rows == 20_000
