"""NaN is DuckDB's greatest number: filters must find it wherever it is stored, in columns and inside nested ones."""

import pyarrow as pa
import pytest

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle

ROWS = 20
NAN = float("nan")


@pytest.mark.parametrize(
    "limits", [[0], [100], [0, 100], [100, 0]], ids=["files", "inlined", "file+inlined", "inlined+file"]
)
def test_duckdb_finds_nan_by_filter(catalog: Catalog, limits: list[int]) -> None:
    lake = Lake.create(catalog.url, catalog.data_path)
    lake.create_table("t", {"i": "int32", "x": "float64", "f": "float32", "s": "struct(x float64)", "l": "float64[]"})
    floats = pa.array([1.0] * (ROWS - 1) + [NAN])
    data = {
        "i": pa.array(range(ROWS), pa.int32()),
        "x": floats,
        "f": floats.cast(pa.float32()),
        "s": pa.StructArray.from_arrays([floats], ["x"]),
        "l": pa.array([[value] for value in floats.to_pylist()]),
    }
    for limit in limits:
        lake.set_option("data_inlining_row_limit", limit, table="t")
        lake.append("t", data)
    lake.close()

    with Oracle() as db:
        db.attach(catalog.attach)
        counts = {
            where: db.query(f"SELECT count(*) FROM t WHERE {where}")[0][0]
            for where in ("x > 100", "x = 'nan'", "isnan(x)", "f > 100", "s.x > 100", "l[1] > 100", "x <= 1")
        }

    expected = len(limits)
    assert counts == dict.fromkeys(counts, expected) | {"x <= 1": expected * (ROWS - 1)}
    assert lake.table("t").count("x > 100") == expected
    assert lake.table("t").count("f > 100 AND s.x > 100") == expected
    lake.close()
