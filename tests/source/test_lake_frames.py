"""What is in a lake as DataFrames, views of all tables, and `DuckLakeTable`."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput, ObjectNotFound
from ducklake_core.metadata_tables import METADATA, read_metadata
from ducklake_sources import DuckLakeTable, register_views
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle

ROWS = pa.table({"id": list(range(10)), "city": ["Bonn", "Köln"] * 5})


@pytest.fixture
def lake(catalog: Catalog, tmp_path: Path) -> Iterator[Lake]:
    """Give a lake with a partitioned table, an added file, inlined rows and deletes, and a table of another schema."""
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.set_option("data_inlining_row_limit", 3)
        lake.create_table("orders", {"id": "int64", "city": "varchar"}, partition_by=["city"], comment="all of them")
        lake.append("orders", ROWS)
        lake.append("orders", ROWS.slice(0, 2))
        lake.delete("orders", "id = 3")
        lake.create_schema("eu")
        lake.create_table("eu.added", {"id": "int64"})
        path = tmp_path / "added.parquet"
        pq.write_table(pa.table({"id": [1, 2]}), path)
        lake.add_data_files("eu.added", str(path))
        lake.merge_adjacent_files()
        yield lake


def test_metadata_are_what_duckdb_and_the_catalog_tell(lake: Lake, catalog: Catalog, oracle: Oracle) -> None:
    found = {name: read_metadata(lake, name).to_pylist() for name in METADATA}

    oracle.attach(catalog.attach, data_path=catalog.data_path)
    snapshots = oracle.query("SELECT snapshot_id, snapshot_time FROM ducklake_snapshots('lake') ORDER BY 1")
    assert [(row["snapshot_id"], row["snapshot_time"]) for row in found["snapshots"]] == snapshots
    files = oracle.query("SELECT data_file FROM ducklake_list_files('lake', 'orders')")
    paths = [row["path"] for row in found["files"] if row["table_name"] == "main.orders"]
    assert sorted(paths) == sorted(path for (path,) in files)
    rows = {row["table_name"]: row["row_count"] for row in found["tables"]}
    assert rows == {"main.orders": 11, "eu.added": 2}
    partitions = {(row["table_name"], *row["partition"]): row["record_count"] for row in found["partitions"]}
    wanted = {("main.orders", ("city", "Bonn")): 5, ("main.orders", ("city", "Köln")): 5, ("eu.added",): 2}
    assert partitions == wanted
    assert [row["delete_count"] for row in found["deletes"]] == [1]
    assert [row["has_name_mapping"] for row in found["files"] if row["table_name"] == "eu.added"] == [True]
    assert Counter(row["change"] for row in found["changes_made"] if row["table_name"] == "eu.added") == {
        "created_table": 1,
        "inserted_into_table": 1,
    }
    assert ("data_inlining_row_limit", "3") in {(row["option_name"], row["option_value"]) for row in found["options"]}
    assert [row["row_versions"] for row in found["inlined"] if row["table_name"] == "main.orders"] == [2]
    assert {row["operation"] for row in found["maintenance"]} == {"merge"}
    assert [row["column_name"] for row in read_metadata(lake, "columns", "orders").to_pylist()] == ["id", "city"]
    with pytest.raises(InvalidInput, match=r"there is no metadata 'snapshot': did you mean 'snapshots'\?"):
        read_metadata(lake, "snapshot")


@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_views_and_metadata_in_spark(lake: Lake, catalog: Catalog, oracle: Oracle, spark: SparkSession) -> None:
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    oracle.execute("CREATE VIEW big AS FROM orders WHERE id > 5")

    oracle.execute("CREATE TABLE _files (i INTEGER)")  # its view would have the name of one of the metadata
    storage = {"path_style": True, "ca_file": "/a,b.pem"}

    done = register_views(spark, catalog.url, "shop", storage=storage)

    assert done.tables == {"main.orders": "shop_orders", "eu.added": "shop_eu_added"}
    assert sorted(done.left_out) == ["main._files", "main.big"]
    for name in METADATA:
        frame = spark.sql(f"SELECT * FROM shop__{name}")
        assert frame.toArrow().to_pylist() == read_metadata(lake, name).to_pylist(), name
    both = spark.sql("SELECT count(*) FROM shop_orders JOIN shop_eu_added USING (id)").head()
    assert both is not None
    assert both[0] == 3  # 1 twice, since it is inlined as well, and 2
    of_one = spark.read.format("ducklake").options(catalog=catalog.url, metadata="files", table="orders").load()
    assert of_one.count() == 2
    with pytest.raises(Exception, match="versionAsOf and metadata exclude each other"):
        spark.read.format("ducklake").options(catalog=catalog.url, metadata="files", versionAsOf="1").load()


@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_views_of_tables_that_are_gone_or_broken_are_left_out(
    lake: Lake, catalog: Catalog, spark: SparkSession
) -> None:
    lake.create_table('eu."o.d d"', {"id": "int64"})
    before = register_views(spark, catalog.url, "gone")
    lake.drop_table('eu."o.d d"')
    path = Path(lake.table("orders").files()[0].path)
    path.rename(f"{path}.aside")

    after = register_views(spark, catalog.url, "gone")

    Path(f"{path}.aside").rename(path)
    assert set(before.tables.values()) == {"gone_orders", "gone_eu_added", "gone_eu_o.d d"}
    assert after.tables == {"eu.added": "gone_eu_added"}
    assert "cannot open file" in after.left_out["main.orders"]
    names = {view.name for view in spark.catalog.listTables() if view.name.startswith("gone_")}
    assert names == {"gone_eu_added", *after.metadata.values()}


@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_a_table_as_users_of_delta_know_it(lake: Lake, catalog: Catalog, oracle: Oracle, spark: SparkSession) -> None:
    table = DuckLakeTable.for_name(spark, catalog.url, "orders")
    before = lake.snapshots()[-1].snapshot_id
    source = spark.createDataFrame(pa.table({"id": [0, 100], "city": ["Ulm", "Ulm"]}))

    lake.delete("orders", "id = 0")
    lake.append("orders", ROWS.slice(0, 1))
    report = table.merge(source, "t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    table.update("id = 100", values={"city": "Jena", "id": pc.field("id") + 1})
    table.delete("id = 9")
    deleted = table.merge(source.limit(1), ["id"]).when_matched_delete().execute()

    assert (report.inserted, report.updated, deleted.deleted) == (1, 1, 1)
    assert {(row["id"], row["city"]) for row in table.to_df().toArrow().to_pylist()} >= {(101, "Jena"), (8, "Bonn")}
    assert table.to_df(before).count() == 11
    newest = table.history(1).collect()
    assert [(row["version"], "inlined_delete" in row["operations"]) for row in newest] == [
        (lake.snapshots()[-1].snapshot_id, True)
    ]
    detail = table.detail().collect()[0].asDict()
    assert (detail["table_name"], detail["partition_by"], detail["comment"]) == ("main.orders", ["city"], "all of them")
    assert not any(one.has_failed for one in [*table.optimize(), *table.vacuum(dry_run=True)])
    assert table.restore_to_version(before) is not None
    assert sorted(table.to_df().collect()) == sorted(table.to_df(before).collect())
    assert table.restore_to_version(before) is None
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    assert oracle.query("SELECT count(*) FROM orders") == [(table.to_df().count(),)]


@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_what_would_mean_something_else_than_in_delta_is_refused(
    lake: Lake, catalog: Catalog, spark: SparkSession
) -> None:
    table = DuckLakeTable.for_name(spark, catalog.url, "eu.added")
    source = spark.createDataFrame(pa.table({"id": [5, 5]}))
    merge = table.merge(source, "t.id = s.id")

    with pytest.raises(InvalidInput, match="a merge with insert: possible are"):
        merge.when_not_matched_insert_all().execute()
    with pytest.raises(InvalidInput, match="a condition of its own for a clause"):
        merge.when_matched_delete("s.gone")  # type: ignore[arg-type] # as in Delta
    with pytest.raises(InvalidInput, match="several rows of the source have the same id"):
        merge.when_matched_update_all().execute()
    for condition in ("t.id = s.other", "t.id = s.id OR t.id = 3", "t.id < s.id AND t.id = s.id"):
        with pytest.raises(InvalidInput, match="cannot merge by"):
            table.merge(source, condition)
    with pytest.raises(InvalidInput, match="Delta's set, whose texts are SQL"):
        table.update("id = 1", set={"id": "id + 1"})
    with pytest.raises(InvalidInput, match=r"update takes values=\{'column': value\} by name"):
        table.update("id = 1", {"id": "id + 1"})
    with pytest.raises(InvalidInput, match="Spark's columns are not understood"):
        table.delete(source["id"] == 5)  # type: ignore[arg-type] # as in Delta
    with pytest.raises(ObjectNotFound, match=r"there is no table 'eu\.ad'"):
        DuckLakeTable.for_name(spark, catalog.url, "eu.ad")
    assert lake.table("eu.added").count() == 2
