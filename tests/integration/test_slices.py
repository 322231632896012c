"""A table read in slices, by whoever, has the rows that the table has; and what goes wrong is told with all names."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake, Table
from ducklake_core.errors import ObjectNotFound, TransientError, UnreadableFile
from ducklake_core.plan.filter_sql import parse_filter
from ducklake_core.read.parts import CatalogRows, FileRows, ShippedRows
from ducklake_core.read.sharing import SliceLimits
from ducklake_core.read.slices import Slice, read_slice
from tests.fixtures import databases
from tests.fixtures.catalogs import Catalog

LEFT_IN_CATALOG = SliceLimits(shipped_rows=0, count=3)


def read(slices: list[Slice], schema: pa.Schema) -> pa.Table:
    """Read slices as other processes would, after their journey."""
    travelled = [pickle.loads(pickle.dumps(one)) for one in slices]  # noqa: S301 # our own
    return pa.Table.from_batches([b for one in travelled for b in read_slice(one)], schema)


def parts_of(slices: list[Slice], kind: type) -> list[object]:
    return [part for one in slices for part in one.parts if isinstance(part, kind)]


def tables_of(lake: Lake) -> list[Table]:
    at = [snapshot.snapshot_id for snapshot in lake.snapshots()]
    return [table for one in at for table in lake.tables(one)]


@pytest.mark.parametrize("limits", [SliceLimits(count=1), SliceLimits(count=7), LEFT_IN_CATALOG], ids=str)
def test_slices_have_the_rows_of_the_table_at_every_snapshot(lived_lake: Lake, limits: SliceLimits) -> None:
    for table in tables_of(lived_lake):
        slices = table.slices(limits=limits)

        assert read(slices, table.schema).sort_by("id").equals(table.read().sort_by("id"))


@pytest.mark.parametrize("limits", [SliceLimits(count=7), LEFT_IN_CATALOG], ids=str)
@pytest.mark.parametrize("condition", ["id > 20050", "id = 30000 OR fresh = 'u'", "title IS NULL", "id < 0"])
def test_filter_and_columns_are_heeded(lived_lake: Lake, limits: SliceLimits, condition: str) -> None:
    table = lived_lake.table("t")
    columns = ["title", "id"]

    slices = table.slices(columns, parse_filter(condition, table.version.columns), limits)

    schema = pa.schema([table.schema.field(name) for name in columns])
    assert read(slices, schema).sort_by("id").equals(table.read(columns, condition).sort_by("id"))


def test_files_that_cannot_match_are_not_in_a_slice(lived_lake: Lake) -> None:
    table = lived_lake.table("t")

    slices = table.slices(predicate=parse_filter("id >= 20000", table.version.columns))

    assert 0 < len(parts_of(slices, FileRows)) < len(table.files())


def test_large_file_is_shared_out_and_opened_once_per_slice(lived_lake: Lake) -> None:
    lived_lake.set_option("data_inlining_row_limit", 0)
    lived_lake.set_option("parquet_row_group_size", 122_880)
    lived_lake.create_table("large", {"id": "int64"})
    lived_lake.append("large", pa.table({"id": range(1_000_000)}))
    lived_lake.delete("large", "id >= 500000 AND id < 700000")
    table = lived_lake.table("large")

    slices = table.slices(limits=SliceLimits(count=4))

    assert [len(one.parts) for one in slices] == [1, 1, 1, 1]
    sizes = [read([one], table.schema).num_rows for one in slices]
    assert sum(sizes) == 800_000
    assert all(sizes)
    assert read(slices, table.schema).column("id").to_pylist() == [*range(500_000), *range(700_000, 1_000_000)]


def test_few_inlined_rows_travel_and_many_stay_in_the_catalog(lived_lake: Lake) -> None:
    table = lived_lake.table("t")

    few, many = table.slices(), table.slices(limits=LEFT_IN_CATALOG)

    assert parts_of(few, ShippedRows)
    assert not parts_of(few, CatalogRows)
    assert parts_of(many, CatalogRows)
    assert not parts_of(many, ShippedRows)


def test_no_secret_is_shown(lived_lake: Lake) -> None:
    slices = lived_lake.table("t").slices(limits=LEFT_IN_CATALOG)

    password = lived_lake.database.url.url.password
    assert password is None or password not in repr([*slices, *parts_of(slices, CatalogRows)])


def test_rows_that_were_flushed_since_the_plan_are_not_lost_in_silence(lived_lake: Lake) -> None:
    table = lived_lake.table("t")
    shipped, left = table.slices(), table.slices(limits=LEFT_IN_CATALOG)

    lived_lake.flush_inlined("t")

    assert read(shipped, table.schema).num_rows == table.count()
    with pytest.raises(TransientError, match=r"table 'main\.t' at snapshot .* have been flushed since: begin it again"):
        read(left, table.schema)
    assert read(table.slices(), table.schema).num_rows == table.count()


def test_expired_snapshot_is_refused(catalog: Catalog, lived_lake: Lake) -> None:
    table = lived_lake.table("t")
    lived_lake.append("t", {"id": [1], "title": ["n"], "fresh": ["f"]})
    databases.run(catalog, f"DELETE FROM ducklake_snapshot WHERE snapshot_id = {table.snapshot.snapshot_id}")

    with pytest.raises(ObjectNotFound, match=r"'main\.t': snapshot \d+ has expired since the table was opened"):
        table.slices()


def test_file_that_is_gone_is_named_with_table_and_snapshot(lived_lake: Lake) -> None:
    table = lived_lake.table("t")
    slices = table.slices()
    path = table.files()[0].path

    Path(path).unlink()

    with pytest.raises(UnreadableFile, match=r"the file is gone: .* begin the read again") as caught:
        read(slices, table.schema)
    for part in ("'main.t'", f"snapshot {table.snapshot.snapshot_id}", path):
        assert part in str(caught.value)
