"""What data says of its own columns, that they have no nulls or metadata of somebody, is nothing to a table."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake

STRICT = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata={"a": "b"})], metadata={"c": "d"})


@pytest.mark.parametrize("limit", [0, 10], ids=["files", "inlined"])
def test_appends_of_one_transaction_may_differ(catalog: Catalog, limit: int) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.set_option("data_inlining_row_limit", limit)
        lake.create_table("t", {"id": "int64"})

        with lake.transaction() as tx:
            tx.append("t", pa.table({"id": [1, 2]}, STRICT))
            tx.append("t", pa.table({"id": pa.array([None, 3], pa.int64())}))
            tx.update("t", {"id": 7}, "id = 2")
            tx.append("t", pa.table({"id": [4]}, STRICT))

        assert sorted(lake.table("t").read()["id"].to_pylist(), key=str) == [1, 3, 4, 7, None]
        files = [pq.read_schema(path) for path in (f.path for f in lake.table("t").files())]
        assert all(schema.field("id").nullable and not schema.metadata for schema in files)
    check_lake(catalog)
