"""`sink.replace` beside a flush, the sink's own or another's: the files are written once, and committed or removed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import CommitResult, Lake, Transaction
from ducklake_core.errors import CommitConflict
from ducklake_core.observe import Event
from ducklake_sinks import FlushPolicy
from ducklake_sinks.batch_commit import MAX_REBUILDS_OF_CHANGES
from ducklake_sinks.events import BatchRebuilt
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.faults import at_fault
from tests.fixtures.oracle import Oracle
from tests.fixtures.sinks import MakeSink

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)]

FEW, MANY = 10, 3000
# Spark's own writer, and our Python tasks: they write what is partitioned.
WAYS = pytest.mark.parametrize("way", [{}, {"partition_by": ["bucket(2, id)"]}], ids=["native", "python tasks"])


def frame(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(0, rows, 1, 2)


def flush_by_another(catalog: Catalog) -> None:
    with Lake.open(catalog.url) as lake:
        lake.append("main.events", {"id": [-1]})
        assert lake.flush_inlined("main.events").rows > 0


@contextmanager
def before_each_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> Iterator[list[str]]:
    """Do something before every commit, but not before those that this makes itself; give a list of them."""
    commit = Transaction.commit
    made: list[str] = []
    is_acting = False

    def act_and_commit(self: Transaction) -> CommitResult:
        nonlocal is_acting
        if not is_acting:
            is_acting = True
            act()
            is_acting = False
            made.append("commit")
        return commit(self)

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "commit", act_and_commit)
        yield made


@WAYS
def test_replace_whose_table_is_flushed_meanwhile_keeps_its_files(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, way: dict[str, Any]
) -> None:
    sink = make_sink(inline_rows=100, flush=FlushPolicy(), **way)
    large: list[str] = []
    sink.append(frame(spark, FEW))
    sink.append(frame(spark, MANY))  # after which executors write the next, and not the driver
    before = set(Path(catalog.data_path).rglob("*.parquet"))

    with (
        at_fault("before_large_write", lambda: large.append("write")),
        at_fault("after_collect", lambda: flush_by_another(catalog)),  # when the files are there
    ):
        result = sink.replace(frame(spark, MANY))

    assert result.snapshot is not None
    assert large == ["write"]
    written = set(Path(catalog.data_path).rglob("*.parquet")) - before
    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), count(DISTINCT id), min(id) FROM events") == [(MANY, MANY, 0)]
    with Lake.open(catalog.url) as lake:
        live = [file.path for file in lake.table("main.events").files()]
        assert lake.snapshots()[-1].snapshot_id == result.snapshot.snapshot_id
    assert {Path(path.removeprefix("file://")) for path in live} <= written
    check_lake(catalog, orphans=0)


@WAYS
def test_replace_whose_table_is_flushed_again_and_again_ends_and_leaves_no_files(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, way: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = make_sink(inline_rows=100, **way)
    sink.append(frame(spark, MANY))

    with (
        before_each_commit(monkeypatch, lambda: flush_by_another(catalog)) as commits,
        pytest.raises(CommitConflict, match="had rows inserted"),
    ):
        sink.replace(frame(spark, MANY))

    assert len(commits) == 1 + MAX_REBUILDS_OF_CHANGES
    with Lake.open(catalog.url) as lake:
        assert lake.table("main.events").count() == MANY + len(commits)
    check_lake(catalog, orphans=0)


def test_replace_whose_table_is_altered_after_a_flush_ends_and_leaves_no_files(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink
) -> None:
    """Its files have not the columns that the table has now."""

    class Alter:
        """Adds a column when the batch is about to be built anew."""

        def record(self, event: Event) -> None:
            if isinstance(event, BatchRebuilt):
                with Lake.open(catalog.url) as lake:
                    lake.add_column("main.events", "x", "int64")

    sink = make_sink(inline_rows=100, merge_schema=True, recorder=Alter())
    sink.append(frame(spark, MANY))

    with (
        at_fault("after_collect", lambda: flush_by_another(catalog)),
        pytest.raises(CommitConflict, match="had rows inserted"),
    ):
        sink.replace(frame(spark, MANY))

    check_lake(catalog, orphans=0)
