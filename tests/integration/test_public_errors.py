"""Every public method, with a database that fails at each statement in turn: our error, and a lake to go on with."""

from collections.abc import Callable

import pytest

from ducklake_core import Epoch, Lake
from ducklake_core.errors import CommitOutcomeUnknown, DuckLakeError
from ducklake_core.model import Consumer
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.failing import FailingCatalog
from tests.fixtures.proxy import Trouble

NOT_INLINED = "plain.c"  # each version of its columns would else add a table, and statements, for ever
MOST_STATEMENTS = 200  # of an act


def in_transaction(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.create_schema("s")
        tx.create_table("s.v", {"id": "int64"})
        tx.append("t", {"id": [5], "name": ["e"]})
        tx.delete("t", "id = 5")
        tx.drop_schema("s", cascade=True)


def record(lake: Lake) -> None:
    table = lake.table("t")
    now = table.snapshot.snapshot_time
    lake.record_consumer(Consumer("c", table.version.table_uuid, table.snapshot.snapshot_id, now, now))


ACTS: dict[str, Callable[[Lake], object]] = {
    "snapshots": Lake.snapshots,
    "tables": Lake.tables,
    "schemas": Lake.schemas,
    "read": lambda lake: lake.table("t").read(filter="id > 0"),
    "count": lambda lake: lake.table("t").count(),
    "files": lambda lake: lake.table("t").files(),
    "slices": lambda lake: lake.table("t").slices(),
    "changes": lambda lake: lake.changes("t", 0),
    "append": lambda lake: lake.append("t", {"id": [4], "name": ["d"]}),
    "append to files": lambda lake: lake.append("t", {"id": list(range(1000, 1100)), "name": ["x"] * 100}),
    "delete": lambda lake: lake.delete("t", "id = 2"),
    "update": lambda lake: lake.update("t", {"name": "y"}, "id = 3"),
    "flush": lambda lake: lake.flush_inlined("t"),
    "flush all": Lake.flush_inlined,
    "inlined_state": lambda lake: lake.inlined_state("t"),
    "definition": lambda lake: (lake.create_table("u", {"id": "int64"}), lake.drop_table("u")),
    "columns": lambda lake: (lake.add_column(NOT_INLINED, "more", "int32"), lake.drop_column(NOT_INLINED, "more")),
    "set_comment": lambda lake: lake.set_comment("t", "rows"),
    "set_not_null": lambda lake: (lake.set_not_null("t", "id"), lake.drop_not_null("t", "id")),
    "set_partitioning": lambda lake: lake.set_partitioning("t", []),
    "transaction": in_transaction,
    "set_option": lambda lake: lake.set_option("auto_compact", value=True, table="t"),
    "options": lambda lake: lake.options(table="t"),
    "ledger_entry": lambda lake: lake.ledger_entry("s"),
    "commit_epoch": lambda lake: lake.commit_epoch(
        Epoch(f"stream {len(lake.snapshots())}", 0, "q", "r"), lambda tx: tx.append("t", {"id": [6], "name": ["f"]})
    ),
    "record_consumer": record,
    "consumers": Lake.consumers,
    "forget_consumer": lambda lake: lake.forget_consumer("c"),
}


@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize("act", ACTS)
def test_database_that_fails_anywhere_leaves_our_error_and_a_lake_to_use(
    failing_catalog: FailingCatalog, act: str, trouble: Trouble
) -> None:
    make_lake(failing_catalog.catalog)
    has_failed, in_doubt = True, False
    for number in range(MOST_STATEMENTS):
        with Lake.open(failing_catalog.url, catalog_timeout=0) as lake:
            failing_catalog.failing.fail_at(number, trouble)
            try:
                ACTS[act](lake)
            except CommitOutcomeUnknown:
                in_doubt = True
            except DuckLakeError as error:
                assert "cannot " in str(error) or "lost" in str(error)  # noqa: PT017 # it may also go well
            has_failed = failing_catalog.failing.end_failing()
            assert lake.database.engine.pool.checkedout() == len(lake.database._idle)  # type: ignore[attr-defined] # QueuePool has it
            tidy(lake)
            assert lake.table("t").read(["id"], filter="id = 1").num_rows == 1
        if not has_failed:
            break
    assert not has_failed
    check_lake(failing_catalog.catalog, orphans=number if in_doubt else 0)


def make_lake(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64", "name": "varchar"})
        lake.append("t", {"id": list(range(100, 150)), "name": ["x"] * 50})
        lake.append("t", {"id": [1, 2, 3], "name": ["a", "b", "c"]})
        lake.create_schema("plain")
        lake.set_option("data_inlining_row_limit", 0, schema="plain")
        lake.create_table(NOT_INLINED, {"id": "int64"})


def tidy(lake: Lake) -> None:
    """Undo what half of an act of two steps has left behind."""
    names = {table.version.name for table in lake.tables()}
    if "u" in names:
        lake.drop_table("u")
    if "more" in lake.table(NOT_INLINED).schema.names:
        lake.drop_column(NOT_INLINED, "more")
