"""A lake that another migrates to a newer format while we have it open: every operation says so, and writes nothing."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from ducklake_core import Lake
from ducklake_core.catalog.postgres.session import on_postgres
from ducklake_core.errors import UnsupportedFormatVersion
from ducklake_core.model import Consumer, Epoch, SnapshotId
from ducklake_core.spec.versions import CURRENT
from tests.fixtures.catalogs import Catalog, PostgresCatalog
from tests.fixtures.migration import INLINED_TABLES, migrate, migration
from tests.fixtures.postgres import PostgresDatabase
from tests.fixtures.proxy import run_proxy
from tests.fixtures.waiting import PATIENCE_SECONDS, wait_until

LIMIT = 10
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FEW, MANY, BULK = ({"id": list(range(100, 100 + n)), "name": ["x"] * n} for n in (2, LIMIT + 1, 150))
EPOCHS = iter(range(1, 100))

Operation = Callable[[Lake], object]
OPERATIONS: dict[str, Operation] = {
    "append inlined": lambda lake: lake.append("t", FEW),
    "append a file": lambda lake: lake.append("t", MANY),
    "append by COPY": lambda lake: lake.append("bulk", BULK),
    "append to a table without inlined rows": lambda lake: lake.append("files", MANY),
    "delete inlined rows": lambda lake: lake.delete("t", "id = 1"),
    "delete rows of files": lambda lake: lake.delete("files", "id = 105"),
    "update": lambda lake: lake.update("t", {"name": "new"}, "id = 1"),
    "create a table": lambda lake: lake.create_table("new", {"id": "int64"}),
    "drop a table": lambda lake: lake.drop_table("files"),
    "rename a table": lambda lake: lake.rename_table("files", "others"),
    "create a schema": lambda lake: lake.create_schema("new"),
    "add a column": lambda lake: lake.add_column("t", "more", "int64"),
    "drop a column": lambda lake: lake.drop_column("t", "name"),
    "set a comment": lambda lake: lake.set_comment("t", "new"),
    "flush one table": lambda lake: lake.flush_inlined("t"),
    "flush all": lambda lake: lake.flush_inlined(),
    "set an option": lambda lake: lake.set_option("data_inlining_row_limit", 5),
    "read options": lambda lake: lake.options(),
    "commit an epoch": lambda lake: lake.commit_epoch(
        Epoch("s", next(EPOCHS), "q", "r"), lambda tx: tx.append("t", FEW)
    ),
    "commit an epoch without rows": lambda lake: lake.commit_epoch(Epoch("s", next(EPOCHS), "q", "r"), lambda _: None),
    "read the ledger": lambda lake: lake.ledger_entry("s"),
    "record a consumer": lambda lake: lake.record_consumer(consumer()),
    "forget a consumer": lambda lake: lake.forget_consumer("c"),
    "read consumers": lambda lake: lake.consumers(),
    "read a table": lambda lake: lake.table("t").read(),
    "read an older snapshot": lambda lake: lake.table("t", at=2).read(),
    "count rows": lambda lake: lake.table("files").count(),
    "list tables": lambda lake: lake.tables(),
    "list schemas": lambda lake: lake.schemas(at=2),
    "list snapshots": lambda lake: lake.snapshots(),
    "read changes": lambda lake: lake.changes("t", 0),
    "inlined state": lambda lake: lake.inlined_state("t"),
}


def consumer() -> Consumer:
    return Consumer("c", uuid4(), SnapshotId(1), NOW, None)


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    """Give a lake that has been written to, read and flushed, and so knows and has prepared whatever it can."""
    with Lake.create(catalog.url, catalog.data_path) as lake:
        fill(lake)
        yield lake


def fill(lake: Lake) -> None:
    lake.set_option("data_inlining_row_limit", LIMIT)
    for name in ("t", "bulk", "files"):
        lake.create_table(name, {"id": "int64", "name": "varchar"})
    lake.set_option("data_inlining_row_limit", 1000, table="bulk")
    for name in ("t", "bulk"):
        for number in range(3):
            lake.append(name, {"id": [number], "name": ["a"]})
    lake.append("bulk", BULK)
    lake.append("files", MANY)
    lake.commit_epoch(Epoch("s", 0, "q", "r"), lambda tx: tx.append("t", FEW))
    lake.table("t").read()


@pytest.mark.parametrize("first", ["append inlined", "append by COPY", "commit an epoch", "create a table"])
def test_operations_on_a_migrated_lake_are_refused_and_write_nothing(lake: Lake, catalog: Catalog, first: str) -> None:
    """The first one goes by what the lake remembers of its last commit; the others have to look."""
    migrate(catalog)
    before = catalog.columns(), catalog.dump(), files_of(catalog)

    said = {name: refusal(OPERATIONS[name], lake) for name in [first, *OPERATIONS]}

    assert {name: text for name, text in said.items() if "the lake has format '1.1'" not in text} == {}
    assert (catalog.columns(), catalog.dump(), files_of(catalog)) == before


def refusal(operation: Operation, lake: Lake) -> str:
    try:
        return f"returned {operation(lake)!r}"
    except UnsupportedFormatVersion as error:
        return error.message
    except Exception as error:  # noqa: BLE001 # to be shown beside those of other operations
        return f"{type(error).__name__}: {error}"


def test_table_that_was_found_before_cannot_be_read_any_more(lake: Lake, catalog: Catalog) -> None:
    found = [lake.table("t"), lake.table("files")]
    migrate(catalog)

    for table in found:
        with pytest.raises(UnsupportedFormatVersion):
            table.read()


def test_transaction_that_was_begun_before_cannot_commit(lake: Lake, catalog: Catalog) -> None:
    tx = lake.transaction()
    with pytest.raises(UnsupportedFormatVersion), tx:  # noqa: PT012 # the block is the transaction
        tx.append("t", FEW)
        tx.append("files", MANY)
        migrate(catalog)
        before = catalog.dump()

    assert catalog.dump() == before


def test_database_tells_the_format_that_it_has_seen_last(lake: Lake) -> None:
    lake.snapshots()

    assert lake.database.version == CURRENT


def files_of(catalog: Catalog) -> list[Path]:
    return sorted(path for path in Path(catalog.data_path).rglob("*") if path.is_file())


# ------------------------------------------------------------------------- at the same time, on PostgreSQL


@pytest.fixture
def postgres_lake(postgres_database: PostgresDatabase, tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(postgres_database.url, f"{tmp_path}/data") as lake:
        fill(lake)
        yield lake


def test_read_whose_transaction_is_older_than_the_migration_is_refused(
    postgres_lake: Lake, postgres_database: PostgresDatabase
) -> None:
    """The transaction still sees the old version, but the names of columns are those of now."""
    table = postgres_lake.table("t").version
    with pytest.raises(UnsupportedFormatVersion), postgres_lake.database.read() as session:  # noqa: PT012 # see above
        session.begin()
        migrate(PostgresCatalog(postgres_database, ""))
        on_postgres(session).driver.execute(f"SELECT row_id FROM {table.inlined_tables[0].name}")


def test_definition_that_is_committed_during_a_migration_makes_one_of_them_fail(
    postgres_lake: Lake, postgres_database: PostgresDatabase
) -> None:
    """A migration that has looked for inlined tables before we make another would leave it with its old names."""
    with psycopg.connect(postgres_database.conninfo) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        names = [row[0] for row in other.execute(INLINED_TABLES).fetchall()]

        postgres_lake.create_table("new", {"id": "int64"})

        with pytest.raises(psycopg.errors.SerializationFailure):  # noqa: PT012 # one of them
            for statement in migration(names):
                other.execute(statement.encode())
        other.rollback()


@pytest.mark.parametrize(
    "name",
    [
        "append by COPY",
        "append to a table without inlined rows",
        "append a file",
        "delete rows of files",
        "drop a table",
        "set a comment",
        "create a schema",
    ],
)
def test_commit_beside_a_migration_that_is_not_committed_waits_for_it_and_is_refused(
    postgres_lake: Lake, postgres_database: PostgresDatabase, name: str
) -> None:
    """It sees the old version, and touches no table that the migration holds."""
    catalog = PostgresCatalog(postgres_database, postgres_lake.data_path)
    before = len(postgres_lake.snapshots()), files_of(catalog)
    said: list[str] = []
    committing = threading.Thread(target=lambda: said.append(refusal(OPERATIONS[name], postgres_lake)))

    with psycopg.connect(postgres_database.conninfo) as other:
        other.execute("UPDATE ducklake_metadata SET value = '1.1' WHERE key = 'version'")
        committing.start()
        wait_until(lambda: is_somebody_waiting_for_a_lock(catalog) or not committing.is_alive())
        other.commit()
    committing.join(PATIENCE_SECONDS)

    assert ["the lake has format '1.1'" in text for text in said] == [True], said
    assert (catalog.query("SELECT count(*) FROM ducklake_snapshot")[0][0], files_of(catalog)) == before


def test_commit_beside_a_migration_that_is_rolled_back_lands(
    postgres_lake: Lake, postgres_database: PostgresDatabase
) -> None:
    catalog = PostgresCatalog(postgres_database, postgres_lake.data_path)
    committing = threading.Thread(target=lambda: postgres_lake.append("files", MANY))

    with psycopg.connect(postgres_database.conninfo) as other:
        for statement in migration([row[0] for row in other.execute(INLINED_TABLES).fetchall()]):
            other.execute(statement.encode())
        committing.start()
        wait_until(lambda: is_somebody_waiting_for_a_lock(catalog))
        other.rollback()
    committing.join(PATIENCE_SECONDS)

    assert postgres_lake.table("files").count() == 2 * (LIMIT + 1)


def is_somebody_waiting_for_a_lock(catalog: Catalog) -> bool:
    return catalog.query("SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'") != []


def test_version_is_checked_without_a_round_trip_of_its_own(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    with run_proxy(postgres_database) as proxy, Lake.create(proxy.database.url, f"{tmp_path}/data") as lake:
        fill(lake)
        lake.append("t", FEW)
        proxy.forget_counts()

        lake.snapshots()
        asked = [s for s in proxy.statements if "ducklake_metadata" in s]
        lake.append("t", FEW)

        assert len(asked) == 1
        guard = next(s for s in proxy.statements if "1 / count" in s)
        assert "ducklake_metadata" in guard
