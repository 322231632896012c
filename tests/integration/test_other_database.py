"""A third database is one record, which only these tests have: whatever a lake can do, it can do there."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.inlined_reader import read_row_versions
from ducklake_core.catalog.urls import CatalogUrl
from ducklake_core.errors import (
    CatalogError,
    CatalogForbidden,
    CatalogTableMissing,
    CatalogUnavailable,
    CommitOutcomeUnknown,
    ContentionError,
    CorruptCatalog,
    DuckLakeError,
    InvalidInput,
    NoLakeFound,
)
from ducklake_core.model import Consumer, Epoch
from ducklake_core.spec.arrays import single
from ducklake_core.spec.inlined import find_uninlinable
from ducklake_core.spec.text import to_text
from tests.fixtures import other_driver
from tests.fixtures.other_database import RULES
from tests.fixtures.other_driver import failing
from tests.fixtures.values import SCALAR_TYPES, column_of, sample_array

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", None, "c"], "price": [0.5, float("nan"), None]})


@pytest.fixture
def lake(other_database: str, tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(other_database, f"{tmp_path}/data", catalog_timeout=1) as lake:
        lake.create_table("t", ROWS.schema)
        yield lake


def file_of(lake: Lake) -> str:
    return lake.database.url.url.database or ""


def ids(lake: Lake) -> list[int]:
    found: list[int] = lake.table("t").read().column("id").to_pylist()
    return sorted(found)


STEPS: Sequence[tuple[str, Callable[[Lake], object]]] = [
    ("append", lambda lake: lake.append("t", ROWS)),
    ("append more", lambda lake: lake.append("t", ROWS.slice(1))),
    ("delete inlined", lambda lake: lake.delete("t", "id = 1")),
    ("update inlined", lambda lake: lake.update("t", {"name": "new"}, "id = 2")),
    ("flush", lambda lake: lake.flush_inlined("t")),
    ("delete of a file", lambda lake: lake.delete("t", "id = 3")),
    ("append after", lambda lake: lake.append("t", ROWS)),
    ("add a column", lambda lake: lake.add_column("t", "more", "int32")),
    ("append to it", lambda lake: lake.append("t", ROWS.append_column("more", pa.array([7, 8, 9], pa.int32())))),
    ("update a file", lambda lake: lake.update("t", {"name": "newest"}, "id = 2")),
    ("flush again", lambda lake: lake.flush_inlined("t", keep_superseded=0)),
]


def rows_of(lake: Lake) -> list[str]:
    return sorted(map(str, lake.table("t").read().to_pylist()))


def changes_of(lake: Lake) -> list[str]:
    changes = lake.changes("t", 0).drop_columns(["_commit_timestamp"])
    return sorted(map(str, changes.to_pylist()))


def state_of(lake: Lake) -> tuple[object, ...]:
    state, head = lake.inlined_state("t"), lake.snapshots()[-1]
    return state.rows, state.ended_rows, state.file_deletes, state.size_bytes, head.snapshot_id, head.changes


def test_every_step_is_as_on_sqlite(lake: Lake, tmp_path: Path) -> None:
    with Lake.create(f"sqlite:///{tmp_path}/twin.sqlite", f"{tmp_path}/twin") as twin:
        twin.create_table("t", ROWS.schema)
        for name, step in STEPS:
            step(lake)
            step(twin)

            assert rows_of(lake) == rows_of(twin), name
            assert changes_of(lake) == changes_of(twin), name
            assert state_of(lake) == state_of(twin), name


def test_all_its_values_come_back(lake: Lake) -> None:
    types = [type_ for type_ in SCALAR_TYPES if find_uninlinable([column_of(type_)], RULES) is None]
    lake.create_table("all", {f"c{index}": type_ for index, type_ in enumerate(types)})
    lake.set_option("data_inlining_row_limit", 100)
    arrays = [sample_array(type_) for type_ in types]
    length = max(map(len, arrays))
    padded = [pa.concat_arrays([array, pa.nulls(length - len(array), array.type)]) for array in arrays]

    lake.append("all", pa.table(padded, names=[f"c{index}" for index in range(len(types))]))

    found, columns = lake.table("all").read(), lake.table("all").version.columns
    texts = [to_text(single(found.column(index)), column) for index, column in enumerate(columns)]
    assert lake.inlined_state("all").rows == length
    assert texts == [to_text(array, column) for array, column in zip(padded, columns, strict=True)]


def test_its_tables_are_of_its_own_types(lake: Lake) -> None:
    lake.append("t", ROWS)

    with closing(sqlite3.connect(file_of(lake))) as connection:
        inlined = connection.execute("SELECT type FROM pragma_table_info('ducklake_inlined_data_1_1')").fetchall()
        [[flag]] = connection.execute("SELECT path_is_relative FROM ducklake_schema").fetchall()

    assert [type_ for (type_,) in inlined] == ["NUMBER(19)"] * 4 + ["CLOB", "CLOB"]
    assert flag == "Y"


@pytest.mark.parametrize(("name", "type_"), [("sysrow", "int64"), ("c", "uuid"), ("n" * 31, "int64")])
def test_what_it_cannot_have_goes_to_files(lake: Lake, name: str, type_: str) -> None:
    lake.create_table("odd", {name: type_})

    lake.append("odd", pa.table({name: sample_array(type_)}))

    assert lake.inlined_state("odd").rows == 0
    assert lake.table("odd").read().num_rows == len(sample_array(type_))


def test_rows_of_many_sizes_are_read_in_pages(lake: Lake) -> None:
    names = ["x" * (n % 7) ** 4 for n in range(300)]
    rows = pa.table({"id": pa.array(range(300), pa.int64()), "name": names, "price": pa.nulls(300, pa.float64())})
    lake.set_option("data_inlining_row_limit", 1000)
    lake.append("t", rows)
    [inlined] = lake.table("t").version.inlined_tables

    chunks = list(read_row_versions(lake.database, inlined, lake.snapshots()[-1].snapshot_id, 16_384))

    assert len(chunks) > 5
    assert pa.concat_tables([chunk.rows for chunk in chunks]).equals(rows)


# ------------------------------------------------------------------------------------------------ its errors


def test_there_is_no_lake_yet(other_database: str) -> None:
    with pytest.raises(NoLakeFound):
        Lake.open(other_database)


def test_lost_race_is_tried_again(lake: Lake) -> None:
    with failing("INSERT INTO ducklake_snapshot ", other_driver.DUPLICATE) as failure:
        lake.append("t", ROWS)

    assert failure.times == 0
    assert ids(lake) == [1, 2, 3]


def test_race_that_is_always_lost_is_contention(lake: Lake) -> None:
    with failing("INSERT INTO ducklake_snapshot ", other_driver.DUPLICATE, 10**6), pytest.raises(ContentionError):
        lake.append("t", ROWS)

    assert ids(lake) == []


def test_lock_of_another_is_told_and_waited_for(lake: Lake) -> None:
    with closing(sqlite3.connect(file_of(lake), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CatalogUnavailable, match="held by another session"):
            lake.append("t", ROWS)
        other.execute("ROLLBACK")

    lake.append("t", ROWS)

    assert ids(lake) == [1, 2, 3]


def test_table_that_is_gone_is_told(lake: Lake) -> None:
    lake.append("t", ROWS)
    with closing(sqlite3.connect(file_of(lake))) as other:
        other.execute("DROP TABLE ducklake_inlined_data_1_1")

    with pytest.raises(
        CorruptCatalog, match=r"registered table of inlined rows that is not there: \[208\] unknown object"
    ):
        lake.table("t").read()


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (other_driver.LOCKED, CatalogUnavailable),
        (other_driver.NOT_ALLOWED, CatalogForbidden),
        (other_driver.DAMAGED, CorruptCatalog),
        (other_driver.MISSING, CatalogTableMissing),
        (777, CatalogError),
    ],
)
def test_number_gets_its_name(lake: Lake, number: int, error: type[DuckLakeError]) -> None:
    with failing("INSERT INTO ducklake_metadata", number, 10**6), pytest.raises(DuckLakeError) as caught:
        lake.set_option("data_inlining_row_limit", 5)

    assert type(caught.value) is error
    assert f"[{number}]" in str(caught.value)


def test_what_helps_is_said_in_its_own_words(lake: Lake) -> None:
    with failing("BEGIN", other_driver.NOT_ALLOWED), pytest.raises(CatalogForbidden, match="administrator of OtherDB"):
        lake.append("t", ROWS)


@pytest.mark.parametrize("is_done", [True, False], ids=["landed", "not landed"])
def test_commit_without_an_answer_is_looked_for(lake: Lake, *, is_done: bool) -> None:
    with failing("COMMIT", other_driver.LOST, is_done_all_the_same=is_done) as failure:
        lake.append("t", ROWS)

    assert failure.times == 0
    assert ids(lake) == [1, 2, 3]


def test_commit_that_nobody_can_look_for_is_unknown(lake: Lake) -> None:
    with failing("COMMIT", other_driver.LOST, 10**6), pytest.raises(CommitOutcomeUnknown):
        lake.append("t", ROWS)


def test_epochs_and_consumers_are_kept_there(lake: Lake) -> None:
    epoch = Epoch("s", 0, "q", "r", continues_run=False)
    first = lake.commit_epoch(epoch, lambda tx: tx.append("t", ROWS))
    again = lake.commit_epoch(epoch, lambda tx: tx.append("t", ROWS))
    snapshot = lake.snapshots()[-1]
    consumer = Consumer("c", lake.table("t").version.table_uuid, snapshot.snapshot_id, snapshot.snapshot_time, None)
    lake.record_consumer(consumer)

    assert (first.replayed, again.replayed) == (False, True)
    assert lake.consumers() == [consumer]
    assert ids(lake) == [1, 2, 3]


# --------------------------------------------------------------------------------------------- databases nobody knows


def test_unknown_database_is_refused_with_what_is_supported() -> None:
    with pytest.raises(
        InvalidInput, match="'mysql' is not supported, only 'postgresql' and 'sqlite' are: use 'sqlite:"
    ):
        Lake.open("mysql://host/lake")


def test_unknown_database_has_no_branch_to_fall_into(lake: Lake) -> None:
    url = CatalogUrl(lake.database.url.url.set(drivername="oracle"))

    with pytest.raises(InvalidInput, match="'oracle' is not supported, only 'otherdb', 'postgresql' and 'sqlite' are"):
        Database(url)


def test_schema_where_there_are_none_is_refused(other_database: str) -> None:
    with pytest.raises(InvalidInput, match="a OtherDB catalog has no schemas"):
        Lake.open(other_database, metadata_schema="s")
