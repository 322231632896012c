"""The connection is lost at COMMIT: what was committed is found, nothing is doubled, no file of a snapshot vanishes."""

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.catalog.commit import CommitResult
from ducklake_core.catalog.postgres.session import PostgresSession
from ducklake_core.catalog.session import Later, Statement
from ducklake_core.clock import Clock, utc_now
from ducklake_core.errors import CatalogError, CommitOutcomeUnknown
from ducklake_core.model import Epoch, Snapshot
from ducklake_core.observe import CommitDoubted, Event, Resolution
from tests.fixtures.catalogs import PostgresCatalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.patience import patience_for
from tests.fixtures.postgres import PostgresDatabase
from tests.fixtures.proxy import Fate, Proxy, run_proxy
from tests.fixtures.waiting import PATIENCE_SECONDS, wait_until

FEW = pa.table({"id": range(5)})
MANY = pa.table({"id": range(100)})  # beyond the default limit: a Parquet file
BOTH = pytest.mark.parametrize("rows", [FEW, MANY], ids=["inlined", "file"])
LOST = pytest.mark.parametrize("fate", [Fate.LOSE_REQUEST, Fate.LOSE_REPLY], ids=lambda fate: fate.value)


@pytest.fixture
def catalog(postgres_database: PostgresDatabase, tmp_path: Path) -> PostgresCatalog:
    catalog = PostgresCatalog(postgres_database, f"{tmp_path}/data/")
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64"})
        lake.commit_epoch(Epoch("s", 0, "q", "r"), lambda tx: tx.append("t", {"id": [-1]}))
    return catalog


@pytest.fixture
def proxy(catalog: PostgresCatalog) -> Iterator[Proxy]:
    with run_proxy(catalog.database) as proxy:
        yield proxy


class Doubts:
    """Keeps what was found out about lost answers."""

    def __init__(self) -> None:
        self.resolutions: list[Resolution] = []

    def record(self, event: Event) -> None:
        if isinstance(event, CommitDoubted):
            self.resolutions.append(event.resolution)


@pytest.fixture
def doubts() -> Doubts:
    return Doubts()


@pytest.fixture
def lake(proxy: Proxy, doubts: Doubts, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """Give a lake whose connections go through the proxy, and that gives up soon."""
    monkeypatch.setenv("PGSSLMODE", "disable")  # else a refused connection is tried again without encryption
    monkeypatch.setenv("PGGSSENCMODE", "disable")
    with Lake.open(proxy.database.url, catalog_timeout=patience_for(5), recorder=doubts) as lake:
        lake.ledger_entry("s")  # the ledger's tables are looked for once
        yield lake


@BOTH
@LOST
def test_epoch_is_committed_exactly_once(
    catalog: PostgresCatalog, proxy: Proxy, lake: Lake, rows: pa.Table, fate: Fate, doubts: Doubts
) -> None:
    proxy.lose(fate)

    result = commit(lake, rows)

    assert result.snapshot is not None
    assert result.attempts == 2
    assert ids_of(catalog) == sorted([-1, *rows["id"].to_pylist()])
    entry = lake.ledger_entry("s")
    assert entry is not None
    assert (entry.batch_id, entry.snapshot_id) == (1, result.snapshot.snapshot_id)
    assert doubts.resolutions == [Resolution.COMMITTED if fate is Fate.LOSE_REPLY else Resolution.REPEATED]
    check_lake(catalog)


@BOTH
@pytest.mark.parametrize("is_epoch", [True, False], ids=["epoch", "append"])
def test_old_commit_that_lands_after_the_check_and_a_new_attempt_never_both_win(
    catalog: PostgresCatalog,
    proxy: Proxy,
    lake: Lake,
    rows: pa.Table,
    *,
    is_epoch: bool,
) -> None:
    proxy.lose(Fate.HOLD_REQUEST)
    results: list[CommitResult | Snapshot | None] = []
    act = partial(commit, lake, rows) if is_epoch else partial(lake.append, "t", rows)
    committing = threading.Thread(target=lambda: results.append(act()))

    committing.start()
    wait_until(proxy.held.is_set)
    wait_until(lambda: has_blocked_session(catalog))  # the new attempt has looked and waits for the old one
    proxy.release()
    committing.join(PATIENCE_SECONDS)

    assert ids_of(catalog) == sorted([-1, *rows["id"].to_pylist()])
    [result] = results
    assert result is not None
    assert not (isinstance(result, CommitResult) and result.replayed)
    check_lake(catalog)


@BOTH
def test_replayed_epoch_after_a_lost_reply_writes_nothing(
    catalog: PostgresCatalog, proxy: Proxy, lake: Lake, rows: pa.Table
) -> None:
    proxy.lose(Fate.LOSE_REPLY, then_refuse=1000)

    with pytest.raises(CommitOutcomeUnknown):
        commit(lake, rows)
    proxy.refusals = 0
    replayed = commit(lake, rows)

    assert replayed.replayed
    assert ids_of(catalog) == sorted([-1, *rows["id"].to_pylist()])
    check_lake(catalog)


@LOST
def test_empty_epoch_is_recorded_once_and_is_no_replay_of_itself(proxy: Proxy, lake: Lake, fate: Fate) -> None:
    proxy.lose(fate)

    result = lake.commit_epoch(Epoch("s", 1, "q", "r", continues_run=True), lambda _: None)

    assert (result.snapshot, result.replayed, result.attempts) == (None, False, 2)
    entry = lake.ledger_entry("s")
    assert entry is not None
    assert (entry.batch_id, entry.snapshot_id) == (1, None)


def test_files_stay_in_doubt_although_another_run_has_the_epoch(
    catalog: PostgresCatalog, proxy: Proxy, lake: Lake
) -> None:
    def commit_by_another_run() -> None:
        with Lake.open(catalog.url) as other:
            other.commit_epoch(Epoch("s", 1, "q", "another"), lambda tx: tx.append("t", FEW))

    proxy.lose(Fate.LOSE_REQUEST)
    before_trying_again(lake, commit_by_another_run)

    result = lake.commit_epoch(Epoch("s", 1, "q", "r"), lambda tx: tx.append("t", MANY))

    assert result.replayed
    assert ids_of(catalog) == sorted([-1, *FEW["id"].to_pylist()])
    assert len(list(Path(catalog.data_path).rglob("*.parquet"))) == 1
    check_lake(catalog, orphans=1)


@BOTH
def test_append_finds_its_snapshot_after_a_lost_reply(
    catalog: PostgresCatalog, proxy: Proxy, lake: Lake, rows: pa.Table, doubts: Doubts
) -> None:
    proxy.lose(Fate.LOSE_REPLY)

    snapshot = lake.append("t", rows)
    assert doubts.resolutions == [Resolution.COMMITTED]

    assert snapshot is not None
    assert ids_of(catalog) == sorted([-1, *rows["id"].to_pylist()])
    assert lake.table("t", at=snapshot.snapshot_id).count() == rows.num_rows + 1
    check_lake(catalog)


@BOTH
def test_append_whose_commit_got_lost_is_made_again(
    catalog: PostgresCatalog, proxy: Proxy, lake: Lake, rows: pa.Table
) -> None:
    proxy.lose(Fate.LOSE_REQUEST)

    lake.append("t", rows)

    assert ids_of(catalog) == sorted([-1, *rows["id"].to_pylist()])
    check_lake(catalog)


@BOTH
@LOST
@pytest.mark.parametrize("is_epoch", [True, False], ids=["epoch", "append"])
@pytest.mark.parametrize("has_other", [True, False], ids=["another writer", "alone"])
def test_commit_that_has_guessed_the_head_is_made_once_whatever_gets_lost(
    catalog: PostgresCatalog,
    proxy: Proxy,
    lake: Lake,
    rows: pa.Table,
    fate: Fate,
    *,
    is_epoch: bool,
    has_other: bool,
) -> None:
    acts = [partial(commit, lake, rows, i) if is_epoch else partial(lake.append, "t", rows) for i in range(1, 5)]
    for act in acts[:3]:
        act()
    proxy.forget_counts()
    proxy.lose(fate)
    if has_other:
        before_trying_again(lake, lambda: other_append(catalog))

    acts[3]()

    assert sum("1 / count" in statement for statement in proxy.statements) == 1
    assert ids_of(catalog) == sorted([-1, *([7] if has_other else []), *rows["id"].to_pylist() * 4])
    check_lake(catalog)


ACTS: dict[str, Callable[[Lake], object]] = {
    "update": lambda lake: lake.update("t", {"id": 777}, "id = 3"),
    "delete": lambda lake: lake.delete("t", "id >= 10 AND id < 60"),
    "definition": lambda lake: lake.create_table("u", {"id": "int64"}),
    "flush": lambda lake: lake.flush_inlined("t"),
}


@LOST
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("has_other", [True, False], ids=["another writer", "alone"])
def test_every_act_is_done_once_whatever_gets_lost(
    catalog: PostgresCatalog, proxy: Proxy, lake: Lake, act: str, fate: Fate, *, has_other: bool
) -> None:
    with Lake.open(catalog.url) as other:
        other.append("t", MANY)
        other.append("t", {"id": [3, 500]})
        other.delete("t", "id >= 80 AND id < 99")
        other.create_table("v", {"id": "int64"})
    before = len(lake.snapshots())
    proxy.lose(fate)

    def append_elsewhere() -> None:
        with Lake.open(catalog.url) as other:
            other.append("v", {"id": [1]})

    before_trying_again(lake, append_elsewhere if has_other else lambda: None)

    ACTS[act](lake)

    assert len(lake.snapshots()) == before + 1 + has_other
    check_lake(catalog)


@BOTH
@pytest.mark.parametrize("is_epoch", [True, False], ids=["epoch", "append"])
def test_commit_is_found_in_the_hour_that_comes_twice(
    catalog: PostgresCatalog, proxy: Proxy, lake: Lake, rows: pa.Table, *, is_epoch: bool
) -> None:
    """Times of two zones are never equal then, although they are the same."""
    with psycopg.connect(catalog.database.conninfo, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {catalog.database.name} SET timezone = 'Europe/Berlin'".encode())
    lake.close()
    seconds = count()
    lake = with_clock(lake, lambda: datetime(2040, 10, 28, 0, 30, next(seconds), tzinfo=UTC))
    proxy.lose(Fate.LOSE_REPLY)

    _ = commit(lake, rows) if is_epoch else lake.append("t", rows)

    assert ids_of(catalog) == sorted([-1, *rows["id"].to_pylist()])
    check_lake(catalog)


@BOTH
def test_append_leaves_the_doubt_when_the_server_takes_no_writes_any_more(
    catalog: PostgresCatalog, proxy: Proxy, lake: Lake, rows: pa.Table
) -> None:
    """As after a failover to a server that only reads."""

    def forbid_writes() -> None:
        with psycopg.connect(catalog.database.conninfo, autocommit=True) as connection:
            database = catalog.database.name
            connection.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on".encode())

    proxy.lose(Fate.HOLD_REQUEST)
    before_trying_again(lake, forbid_writes)

    with pytest.raises(CommitOutcomeUnknown, match="read-only"):
        lake.append("t", rows)
    proxy.release()

    wait_until(lambda: ids_of(catalog) == sorted([-1, *rows["id"].to_pylist()]))


def test_division_by_zero_that_is_not_ours_is_raised(catalog: PostgresCatalog, lake: Lake) -> None:
    with psycopg.connect(catalog.database.conninfo, autocommit=True) as connection:
        body = "BEGIN PERFORM 1 / 0; RETURN NEW; END"
        connection.execute(f"CREATE FUNCTION divide() RETURNS trigger AS $${body}$$ LANGUAGE plpgsql".encode())
        connection.execute(
            "CREATE TRIGGER divides BEFORE INSERT ON ducklake_snapshot FOR EACH ROW EXECUTE FUNCTION divide()"
        )

    with pytest.raises(CatalogError, match="division by zero"):
        lake.append("t", FEW)


@BOTH
def test_append_finds_its_snapshot_when_the_server_is_there_again(
    catalog: PostgresCatalog, proxy: Proxy, lake: Lake, rows: pa.Table
) -> None:
    proxy.lose(Fate.LOSE_REPLY, then_refuse=2)

    snapshot = lake.append("t", rows)

    assert snapshot is not None
    assert lake.snapshots()[-1].snapshot_id == snapshot.snapshot_id
    assert ids_of(catalog) == sorted([-1, *rows["id"].to_pylist()])
    check_lake(catalog)


@BOTH
def test_append_says_so_and_removes_no_file_when_nobody_can_tell_what_became_of_it(
    catalog: PostgresCatalog, proxy: Proxy, lake: Lake, rows: pa.Table, doubts: Doubts
) -> None:
    proxy.lose(Fate.LOSE_REPLY, then_refuse=1000)

    with pytest.raises(CommitOutcomeUnknown):
        lake.append("t", rows)

    assert doubts.resolutions == [Resolution.UNRESOLVED]
    assert ids_of(catalog) == sorted([-1, *rows["id"].to_pylist()])
    check_lake(catalog)


def test_flush_whose_commit_gets_no_answer_keeps_its_files(catalog: PostgresCatalog, proxy: Proxy, lake: Lake) -> None:
    proxy.lose(Fate.LOSE_REPLY, then_refuse=1000)

    with pytest.raises(CommitOutcomeUnknown):
        lake.flush_inlined("t")

    assert ids_of(catalog) == [-1]
    assert catalog.query("SELECT record_count FROM ducklake_data_file") == [(1,)]
    check_lake(catalog)


def test_snapshot_of_another_writer_is_not_taken_for_ours(catalog: PostgresCatalog, proxy: Proxy, lake: Lake) -> None:
    proxy.lose(Fate.LOSE_REQUEST)
    before_trying_again(lake, lambda: other_append(catalog))

    snapshot = lake.append("t", {"id": [8]})

    assert snapshot is not None
    assert lake.table("t", at=snapshot.snapshot_id - 1).count() == 2
    assert ids_of(catalog) == [-1, 7, 8]


def test_snapshot_that_may_be_another_writer_s_is_not_taken_for_ours(
    catalog: PostgresCatalog, proxy: Proxy, lake: Lake
) -> None:
    """Both plan the same snapshot row: their clocks are behind that of the head's writer."""
    catalog_time = lake.snapshots()[-1].snapshot_time
    lake = with_clock(lake, lambda: catalog_time)
    proxy.lose(Fate.LOSE_REQUEST)
    before_trying_again(lake, lambda: other_append(catalog, lambda: catalog_time))

    with pytest.raises(CommitOutcomeUnknown, match="snapshot 3 looks like ours, but may be another's"):
        lake.append("t", {"id": [8]})

    assert ids_of(catalog) == [-1, 7]


def test_snapshot_that_has_expired_meanwhile_leaves_the_doubt(
    catalog: PostgresCatalog, proxy: Proxy, lake: Lake
) -> None:
    def other_appends_and_expires_ours() -> None:
        other_append(catalog)
        with psycopg.connect(catalog.database.conninfo) as connection:
            connection.execute("DELETE FROM ducklake_snapshot WHERE snapshot_id = 3")

    proxy.lose(Fate.LOSE_REPLY)
    before_trying_again(lake, other_appends_and_expires_ours)

    with pytest.raises(CommitOutcomeUnknown, match="snapshot 3 has expired, if it was there"):
        lake.append("t", {"id": [8]})

    assert ids_of(catalog) == [-1, 7, 8]


def test_interrupt_while_waiting_for_the_reply_removes_no_file(catalog: PostgresCatalog, lake: Lake) -> None:
    transaction = lake.transaction()
    transaction.append("t", MANY)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresSession, "_write_pipelined", landing_then(interrupt))
        with pytest.raises(KeyboardInterrupt):
            transaction.commit()

    assert ids_of(catalog) == sorted([-1, *MANY["id"].to_pylist()])
    check_lake(catalog)


def landing_then(act: Callable[[], None]) -> Callable[..., None]:
    """Return `PostgresSession._write_pipelined`, but with something happening right after its COMMIT."""
    write = PostgresSession._write_pipelined

    def write_then_act(
        self: PostgresSession,
        statements: Sequence[Statement],
        later: Sequence[Later],
        while_waiting: Callable[[], object],
    ) -> None:
        write(self, statements, later, while_waiting)
        act()

    return write_then_act


def commit(lake: Lake, rows: pa.Table, batch_id: int = 1) -> CommitResult:
    return lake.commit_epoch(Epoch("s", batch_id, "q", "r", continues_run=True), lambda tx: tx.append("t", rows))


def before_trying_again(lake: Lake, act: Callable[[], None]) -> None:
    """Let something happen after an attempt has failed."""
    lake.database.patience = patience_for(5, lambda _: act())


def with_clock(lake: Lake, now: Callable[[], datetime]) -> Lake:
    """Return the same lake at another time."""
    return Lake(lake.database, lake.data_path, clock=Clock(now=now))


def other_append(catalog: PostgresCatalog, now: Callable[[], datetime] = utc_now) -> None:
    with Lake.open(catalog.url, clock=Clock(now=now)) as other:
        other.append("t", {"id": [7]})


def ids_of(catalog: PostgresCatalog) -> list[int]:
    with Lake.open(catalog.url) as lake:
        return sorted(lake.table("t").read()["id"].to_pylist())


def has_blocked_session(catalog: PostgresCatalog) -> bool:
    with psycopg.connect(catalog.database.conninfo, autocommit=True) as connection:
        return bool(connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchall()[0][0])
