"""The hot path, an inlined append into an existing table on PostgreSQL, counted on the wire: at most three round trips.

A round trip here is what a network would charge for: bytes of the client, and the server's answer that it waits for.
Who was the last to commit needs one for up to `ROW_ARRAY_ROWS` rows: BEGIN, the guard that the head is still that
commit's snapshot, rows, snapshot, statistics, changes, COMMIT. Others have two: BEGIN and head, then the rest. More
rows travel as one COPY between these, which is the third exchange. libpq sends no rows before the server says that it
is ready for them (CopyInResponse), so on the wire that exchange has two answers. Whoever adds one fails here.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.model import Epoch
from ducklake_core.spec.thresholds import ROW_ARRAY_ROWS
from tests.fixtures.postgres import PostgresDatabase
from tests.fixtures.proxy import Proxy, run_proxy

BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ"
GUESSES = [BEGIN, "ducklake_snapshot"]
READS = [BEGIN, "ducklake_metadata", "ducklake_snapshot"]
WRITES = ["ducklake_snapshot", "ducklake_inlined_data_1_1", "ducklake_table_stats"]
END = ["ducklake_snapshot_changes", "COMMIT"]


@pytest.fixture
def proxy(postgres_database: PostgresDatabase) -> Iterator[Proxy]:
    with run_proxy(postgres_database) as proxy:
        yield proxy


@pytest.fixture
def lake(proxy: Proxy, tmp_path: Path) -> Iterator[Lake]:
    """Give a lake with a table whose bounds are wide already, and that was appended to before."""
    with Lake.create(proxy.database.url, f"{tmp_path}/data") as lake:
        lake.set_option("data_inlining_row_limit", 5000)
        lake.create_table("t", {"id": "int64", "name": "varchar", "at": "timestamptz"})
        for count in (10_000 // 4, 10, 1000):
            lake.append("t", rows(count))
        yield lake


def rows(count: int) -> pa.Table:
    times = pa.array(range(count), pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return pa.table({"id": range(count), "name": [f"row {i:05}" for i in range(count)], "at": times})


@pytest.mark.parametrize(
    ("count", "on_the_wire"),
    [(1, 1), (10, 1), (ROW_ARRAY_ROWS, 1), (ROW_ARRAY_ROWS + 1, 4), (1000, 4)],
    ids=["1 row", "10 rows", "the most for one statement", "the fewest for COPY", "1000 rows"],
)
def test_append_takes_at_most_three_exchanges(proxy: Proxy, lake: Lake, count: int, on_the_wire: int) -> None:
    proxy.forget_counts()

    lake.append("t", rows(count))

    exchanges = proxy.round_trips - proxy.copies  # a COPY is one exchange with two answers
    assert proxy.round_trips == on_the_wire
    assert exchanges <= 3


def test_statements_of_an_append_are_these(proxy: Proxy, lake: Lake) -> None:
    proxy.forget_counts()

    lake.append("t", rows(10))

    assert named(proxy.statements) == [*GUESSES, *WRITES, *END]


def test_statements_of_a_large_inlined_append_are_these(proxy: Proxy, lake: Lake) -> None:
    proxy.forget_counts()

    lake.append("t", rows(1000))

    copy, changes = "COPY ducklake_inlined_data_1_1", "ducklake_snapshot_changes"
    guard = "ducklake_metadata"  # a COPY has no guard of its own: the format is looked at again before COMMIT
    expected = [*READS, copy, "ducklake_snapshot", "ducklake_table_stats", changes, guard, "COMMIT"]
    assert named(proxy.statements) == expected


def test_server_without_arrays_of_rows_gets_a_copy(proxy: Proxy, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ducklake_core.catalog.postgres.inlined.FIRST_WITH_ROW_ARRAYS", 10**9)
    before = lake.table("t").count()
    proxy.forget_counts()

    lake.append("t", rows(10))

    assert "COPY ducklake_inlined_data_1_1" in named(proxy.statements)
    assert lake.table("t").count() == before + 10


def test_statistics_are_read_again_when_another_has_committed(proxy: Proxy, lake: Lake) -> None:
    with Lake.open(proxy.target.url) as other:
        other.append("t", rows(10))
    proxy.forget_counts()

    lake.append("t", rows(10))
    guessed_wrong = proxy.round_trips, named(proxy.statements)
    proxy.forget_counts()
    lake.append("t", rows(10))
    read_at_once = proxy.round_trips, named(proxy.statements)

    stats, rollback = "ducklake_table_stats", "ROLLBACK"
    assert guessed_wrong == (4, [*GUESSES, *WRITES, *END, rollback, *READS, stats, *WRITES, *END])
    assert read_at_once == (2, [*READS, stats, *WRITES, *END])


def test_epoch_costs_no_round_trip_more(proxy: Proxy, lake: Lake) -> None:
    """One of these is for the fresh view of the head that a transaction begins with."""
    proxy.forget_counts()
    with lake.transaction() as tx:
        tx.append("t", rows(10))
    without = proxy.round_trips
    for batch_id in range(2):
        lake.commit_epoch(Epoch("s", batch_id, "q", "r"), lambda tx: tx.append("t", rows(10)))
    proxy.forget_counts()

    lake.commit_epoch(Epoch("s", 2, "q", "r"), lambda tx: tx.append("t", rows(10)))

    assert proxy.round_trips == without == 2


def test_tables_that_take_turns_cost_no_round_trip_more(proxy: Proxy, lake: Lake) -> None:
    lake.create_table("u", {"id": "int64"})
    for _ in range(3):
        lake.append("u", {"id": [1]})
    lake.append("t", rows(10))
    lake.append("u", {"id": [1]})
    proxy.forget_counts()

    lake.append("t", rows(10))

    assert proxy.round_trips == 1


def test_epochs_without_rows_between_cost_no_round_trip_more(proxy: Proxy, lake: Lake) -> None:
    for batch_id in range(3):
        lake.commit_epoch(Epoch("s", batch_id, "q", "r"), lambda tx: tx.append("t", rows(10)))
    lake.commit_epoch(Epoch("s", 3, "q", "r"), lambda _: None)
    proxy.forget_counts()

    lake.commit_epoch(Epoch("s", 4, "q", "r"), lambda tx: tx.append("t", rows(10)))

    assert proxy.round_trips == 2


def named(statements: list[str]) -> list[str]:
    """Return each statement by the catalog table it is about."""
    return [_name(s) for s in statements]


def _name(statement: str) -> str:
    words = statement.replace('"', " ").split()
    table = next((w.split("(")[0] for w in words if w.startswith("ducklake_")), None)
    if table is None:
        return statement
    return f"COPY {table}" if words[0] == "COPY" else table.split(".")[0]
