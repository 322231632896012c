"""A table read in slices, by whoever, has the rows that the table has; and what goes wrong is told with all names."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake, Table
from ducklake_core.errors import ObjectNotFound, TransientError, UnreadableFile
from ducklake_core.plan.filter_sql import parse_filter
from ducklake_core.slices import CatalogRows, FileRows, ShippedRows, Slice, SliceLimits, read_slice
from tests.fixtures import databases
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle

LEFT_IN_CATALOG = SliceLimits(shipped_rows=0, count=3)


def read(slices: list[Slice], schema: pa.Schema) -> pa.Table:
    """Read slices as other processes would, after their journey."""
    travelled = [pickle.loads(pickle.dumps(one)) for one in slices]  # noqa: S301 # our own
    return pa.Table.from_batches([b for one in travelled for b in read_slice(one)], schema)


def parts_of(slices: list[Slice], kind: type) -> list[object]:
    return [part for one in slices for part in one.parts if isinstance(part, kind)]


@pytest.fixture
def lake(catalog: Catalog, oracle: Oracle) -> Iterator[Lake]:
    """Give a lake whose table has been through all: files, deletes of each kind, inlined rows, merged and flushed."""
    oracle.attach(catalog.attach, data_path=catalog.data_path, data_inlining_row_limit=10)
    oracle.execute("CREATE TABLE t (id BIGINT, name VARCHAR, old INTEGER)")
    oracle.execute("CALL lake.set_option('parquet_row_group_size', '2048')")
    oracle.execute("INSERT INTO t SELECT i, 'n' || i, i FROM range(10000) r(i)")
    oracle.execute("INSERT INTO t SELECT i, 'n' || i, i FROM range(10000, 10005) r(i)")
    oracle.execute("DELETE FROM t WHERE id % 3 = 0")
    oracle.execute("DELETE FROM t WHERE id = 100")
    oracle.execute("CALL ducklake_flush_inlined_data('lake')")
    oracle.execute("ALTER TABLE t DROP COLUMN old")
    oracle.execute("ALTER TABLE t ADD COLUMN fresh VARCHAR DEFAULT 'new'")
    oracle.execute("INSERT INTO t SELECT i, 'n' || i, 'x' FROM range(20000, 20100) r(i)")
    oracle.execute("INSERT INTO t SELECT i, 'n' || i, 'y' FROM range(20100, 20200) r(i)")
    oracle.execute("CALL ducklake_merge_adjacent_files('lake')")
    oracle.execute("INSERT INTO t VALUES (30000, NULL, 'z'), (30001, 'i', NULL)")
    oracle.execute("UPDATE t SET fresh = 'u' WHERE id IN (30000, 1, 20001)")
    oracle.detach()
    with Lake.open(catalog.url) as opened:
        yield opened


def tables_of(lake: Lake) -> list[Table]:
    at = [snapshot.snapshot_id for snapshot in lake.snapshots()]
    return [table for one in at for table in lake.tables(one)]


@pytest.mark.parametrize("limits", [SliceLimits(count=1), SliceLimits(count=7), LEFT_IN_CATALOG], ids=str)
def test_slices_have_the_rows_of_the_table_at_every_snapshot(lake: Lake, limits: SliceLimits) -> None:
    for table in tables_of(lake):
        slices = table.slices(limits=limits)

        assert read(slices, table.schema).sort_by("id").equals(table.read().sort_by("id"))


@pytest.mark.parametrize("limits", [SliceLimits(count=7), LEFT_IN_CATALOG], ids=str)
@pytest.mark.parametrize("condition", ["id > 20050", "id = 30000 OR fresh = 'u'", "name IS NULL", "id < 0"])
def test_filter_and_columns_are_heeded(lake: Lake, limits: SliceLimits, condition: str) -> None:
    table = lake.table("t")
    columns = ["name", "id"]

    slices = table.slices(columns, parse_filter(condition, table.version.columns), limits)

    schema = pa.schema([table.schema.field(name) for name in columns])
    assert read(slices, schema).sort_by("id").equals(table.read(columns, condition).sort_by("id"))


def test_files_that_cannot_match_are_not_in_a_slice(lake: Lake) -> None:
    table = lake.table("t")

    slices = table.slices(predicate=parse_filter("id >= 20000", table.version.columns))

    assert 0 < len(parts_of(slices, FileRows)) < len(table.files())


def test_large_file_is_shared_out_and_opened_once_per_slice(lake: Lake) -> None:
    lake.set_option("data_inlining_row_limit", 0)
    lake.set_option("parquet_row_group_size", 122_880)
    lake.create_table("large", {"id": "int64"})
    lake.append("large", pa.table({"id": range(1_000_000)}))
    lake.delete("large", "id >= 500000 AND id < 700000")
    table = lake.table("large")

    slices = table.slices(limits=SliceLimits(count=4))

    assert [len(one.parts) for one in slices] == [1, 1, 1, 1]
    sizes = [read([one], table.schema).num_rows for one in slices]
    assert sum(sizes) == 800_000
    assert all(sizes)
    assert read(slices, table.schema).column("id").to_pylist() == [*range(500_000), *range(700_000, 1_000_000)]


def test_few_inlined_rows_travel_and_many_stay_in_the_catalog(lake: Lake) -> None:
    table = lake.table("t")

    few, many = table.slices(), table.slices(limits=LEFT_IN_CATALOG)

    assert parts_of(few, ShippedRows)
    assert not parts_of(few, CatalogRows)
    assert parts_of(many, CatalogRows)
    assert not parts_of(many, ShippedRows)


def test_no_secret_is_shown(lake: Lake) -> None:
    slices = lake.table("t").slices(limits=LEFT_IN_CATALOG)

    password = lake.database.url.url.password
    assert password is None or password not in repr([*slices, *parts_of(slices, CatalogRows)])


def test_rows_that_were_flushed_since_the_plan_are_not_lost_in_silence(lake: Lake) -> None:
    table = lake.table("t")
    shipped, left = table.slices(), table.slices(limits=LEFT_IN_CATALOG)

    lake.flush_inlined("t")

    assert read(shipped, table.schema).num_rows == table.count()
    with pytest.raises(TransientError, match=r"table 'main\.t' at snapshot .* have been flushed since: begin it again"):
        read(left, table.schema)
    assert read(table.slices(), table.schema).num_rows == table.count()


def test_expired_snapshot_is_refused(catalog: Catalog, lake: Lake) -> None:
    table = lake.table("t")
    lake.append("t", {"id": [1], "name": ["n"], "fresh": ["f"]})
    databases.run(catalog, f"DELETE FROM ducklake_snapshot WHERE snapshot_id = {table.snapshot.snapshot_id}")

    with pytest.raises(ObjectNotFound, match=r"'main\.t': snapshot \d+ has expired since the table was opened"):
        table.slices()


def test_file_that_is_gone_is_named_with_table_and_snapshot(lake: Lake) -> None:
    table = lake.table("t")
    slices = table.slices()
    path = table.files()[0].path

    Path(path).unlink()

    with pytest.raises(UnreadableFile, match=r"the file is gone: .* begin the read again") as caught:
        read(slices, table.schema)
    for part in ("'main.t'", f"snapshot {table.snapshot.snapshot_id}", path):
        assert part in str(caught.value)
