"""Storage that takes no files, and what a sink leaves in storage that does: nothing that no snapshot names."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput, NoLakeFound, UnreadableFile, UnwritableFile
from ducklake_core.files.storage import Storage
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.sinks import MakeSink

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)]

LARGE = 1000
# Spark's own writer, and our Python tasks: they write what is partitioned.
WAYS = pytest.mark.parametrize("way", [{}, {"partition_by": ["bucket(2, id)"]}], ids=["native", "python tasks"])


def frame(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(0, rows, 1, 2)


def folders(catalog: Catalog) -> list[Path]:
    return sorted(path for path in Path(catalog.data_path).rglob("ducklake-*") if path.is_dir())


def test_path_that_takes_no_files_is_refused_before_a_lake_is_made(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    sink = make_sink(data_path=f"{tmp_path}/file/lake")

    with pytest.raises(
        UnwritableFile, match=f"below data path '{tmp_path}/file/lake'.*give the lake another data_path"
    ):
        sink(frame(spark, 3), 0)

    with pytest.raises(NoLakeFound):
        Lake.open(catalog.url)


def test_sinks_that_start_at_once_share_the_lake_that_one_creates(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe of the data path is the last thing before a sink creates a lake: another one is faster there."""
    first, second = make_sink(), make_sink(stream="t")
    probe = Storage.check_writable

    def check_after_the_other(storage: Storage) -> None:
        monkeypatch.undo()
        first(frame(spark, 3), 0)
        probe(storage)

    monkeypatch.setattr(Storage, "check_writable", check_after_the_other)
    second(frame(spark, 3), 0)

    with Lake.open(catalog.url) as lake:
        assert lake.table("main.events").count() == 6


def test_lake_whose_path_takes_no_files_any_more_is_refused_at_the_start(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink
) -> None:
    first = make_sink()
    first(frame(spark, 3), 0)
    first.close()
    take_away(catalog)

    with pytest.raises(UnwritableFile, match="cannot write files below data path"):
        make_sink()(frame(spark, 3), 1)

    with Lake.open(catalog.url) as lake:
        assert lake.table("main.events").count() == 3


def test_path_that_takes_files_is_left_without_a_trace(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink
) -> None:
    make_sink()(frame(spark, 3), 0)

    check_lake(catalog, orphans=0)


@WAYS
def test_large_batch_that_cannot_be_written_says_where(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, way: dict[str, Any]
) -> None:
    sink = make_sink(inline_rows=100, **way)
    sink(frame(spark, 3), 0)
    take_away(catalog)

    with pytest.raises(UnwritableFile) as error:
        sink(frame(spark, LARGE), 1)

    assert catalog.data_path.rstrip("/") in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert error.value.__cause__ is not None
    give_back(catalog)
    sink(frame(spark, LARGE), 1)
    check_lake(catalog, orphans=0)


def take_away(catalog: Catalog) -> None:
    """Make the data path one that takes no files, even of root."""
    shutil.rmtree(catalog.data_path)
    Path(catalog.data_path.rstrip("/")).touch()


def give_back(catalog: Catalog) -> None:
    Path(catalog.data_path.rstrip("/")).unlink()


def test_native_write_without_rows_leaves_no_folder(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    sink = make_sink(inline_rows=100)
    sink(frame(spark, LARGE), 0)  # so that the next is expected to be large, too
    before = folders(catalog)

    sink(frame(spark, LARGE).where("id < 0"), 1)

    assert folders(catalog) == before
    check_lake(catalog, orphans=0)


def test_native_write_whose_folder_cannot_be_listed_leaves_none(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = make_sink(inline_rows=100)
    sink(frame(spark, LARGE), 0)
    before = folders(catalog)

    def fail(_: Storage, directory: str) -> None:
        raise UnreadableFile(f"no listing of {directory} today")

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "walk", fail)
        with pytest.raises(UnreadableFile, match="no listing of"):
            sink(frame(spark, LARGE), 1)

    assert folders(catalog) == before
    check_lake(catalog, orphans=0)


def test_native_write_of_few_rows_leaves_no_folder(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    sink = make_sink(inline_rows=100)
    sink(frame(spark, LARGE), 0)
    before = folders(catalog)

    sink(frame(spark, 10), 1)

    assert folders(catalog) == before
    check_lake(catalog, orphans=0)


@WAYS
@pytest.mark.parametrize("commits", [False, True], ids=["in the block", "at the commit"])
def test_batch_that_fails_after_its_files_were_written_leaves_nothing(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, way: dict[str, Any], *, commits: bool
) -> None:
    sink = make_sink(inline_rows=100, **way)
    sink(frame(spark, LARGE), 0)
    before = folders(catalog)
    transaction = sink.transaction(1, spark)
    transaction.append(frame(spark, LARGE))
    assert len(list(Path(catalog.data_path).rglob("*.parquet"))) > sum(1 for _ in registered(catalog))

    if commits:
        with Lake.open(catalog.url) as lake:
            lake.add_column("main.events", "x", "int64")
        with pytest.raises(Exception, match="was altered in snapshot"):
            transaction.commit()
    else:
        with pytest.raises(KeyError), transaction:
            raise KeyError

    assert folders(catalog) == before
    check_lake(catalog, orphans=0)


def registered(catalog: Catalog) -> list[tuple[Any, ...]]:
    return catalog.query("SELECT path FROM ducklake_data_file")


@WAYS
def test_files_that_cannot_be_removed_do_not_hide_why_a_batch_failed(
    spark: SparkSession, make_sink: MakeSink, way: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = make_sink(inline_rows=100, **way)
    sink(frame(spark, 3), 0)
    transaction = sink.transaction(1, spark)
    transaction.append(frame(spark, LARGE))

    def fail(*_: object) -> None:
        raise OSError("no removing today")

    for name in ("remove", "remove_directory"):
        monkeypatch.setattr(Storage, name, fail)

    with pytest.raises(InvalidInput, match="the reason"), transaction:
        raise InvalidInput("the reason")


def test_batch_that_is_read_again_for_a_new_table_leaves_no_files(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink
) -> None:
    """One task knows all its tables and writes files; the other meets a new one."""
    sink = make_sink(table=None, route="topic", inline_rows=10)
    sink(frame(spark, LARGE).selectExpr("id", "'known' AS topic"), 0)

    sink(frame(spark, LARGE).selectExpr("id", f"if(id < {LARGE // 2}, 'known', 'new') AS topic"), 1)

    with Lake.open(catalog.url) as lake:
        assert (lake.table("known").count(), lake.table("new").count()) == (LARGE + LARGE // 2, LARGE // 2)
    check_lake(catalog, orphans=0)
