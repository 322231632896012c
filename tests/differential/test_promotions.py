"""The type changes we allow are among those that the reference allows, so that either side may make them."""

from datetime import date, datetime
from pathlib import Path

import pyarrow as pa

from ducklake_core import Lake
from ducklake_core.spec.promotions import is_promotion
from tests.fixtures.by_hand import duckdb_name
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle, OracleError

TYPES = (
    *("boolean", "int8", "int16", "int32", "int64", "int128", "uint8", "uint16", "uint32", "uint64", "uint128"),
    *("float32", "float64", "decimal(4,1)", "decimal(9,2)", "decimal(18,1)", "decimal(38,0)"),
    *("date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz", "varchar"),
)
PAIRS = [(old, new) for old in TYPES for new in TYPES if old != new and is_promotion(old, new)]


def test_every_promotion_of_ours_is_one_of_the_reference_s(tmp_path: Path) -> None:
    refused = []
    with Oracle() as db:
        db.attach(f"ducklake:sqlite:{tmp_path}/lake.sqlite", data_path=tmp_path / "data")
        columns = ", ".join(f'"{old}" {duckdb_name(old)}' for old in TYPES)
        db.execute(f"CREATE TABLE t({columns})")
        for old, new in PAIRS:
            db.execute("BEGIN")
            try:
                db.execute(f'ALTER TABLE t ALTER "{old}" TYPE {duckdb_name(new)}')
            except OracleError as error:
                refused.append((old, new, str(error)))
            db.execute("ROLLBACK")

    assert len(PAIRS) > 50
    assert refused == []


def test_duckdb_finds_values_beyond_the_text_of_a_bound_that_was_a_float32(catalog: Catalog) -> None:
    lake = Lake.create(catalog.url, catalog.data_path)
    lake.create_table("t", {"x": "float32", "s": "struct(y float32)"})
    floats = pa.array([1.1] * 20, pa.float32())
    lake.append("t", {"x": floats, "s": pa.StructArray.from_arrays([floats], ["y"])})
    with Oracle() as db:
        db.attach(catalog.attach)
        db.query("SELECT min(x), max(x) FROM t")  # remembers the statistics of before

        lake.promote_column("t", "x", "float64")
        lake.promote_column("t", "s.y", "float64")

        # 1.1 is the text of the float32 bound, but as a float64 its value is 1.100000023841858.
        for where in ("x > 1.1::DOUBLE", "s.y > 1.1::DOUBLE", "x = 1.1::FLOAT::DOUBLE"):
            assert db.query(f"SELECT count(*) FROM t WHERE {where}") == [(20,)]
    assert lake.table("t").count("x > 1.1 AND s.y > 1.1") == 20
    lake.close()


def test_an_open_session_of_duckdb_reads_a_column_that_is_promoted(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake, Oracle() as db:
        lake.create_table("t", {"i": "int32", "s": "struct(d date)"})
        lake.append("t", [{"i": i, "s": {"d": date(2026, 1, 1 + i)}} for i in range(20)])
        db.attach(catalog.attach)
        look = "SELECT min(i), max(i), min(s.d) FROM t WHERE i > 3 AND s.d > DATE '2026-01-03'"
        db.query(look)  # remembers the statistics of before

        lake.promote_column("t", "i", "int64")
        lake.promote_column("t", "s.d", "timestamp")

        assert db.query(look) == [(4, 19, datetime(2026, 1, 5))]  # noqa: DTZ001 # a timestamp without a zone
