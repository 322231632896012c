"""A column `a.b` beside a struct `a` with a field b: Parquet gives both leaves one path; they are not mixed up."""

from typing import Any

import pytest

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle

COLUMNS = {"a.b": "int64", "a": "struct(b int64, c varchar)"}
Row = dict[str, Any]  # Any: values of any type


def row(key: int, b: int) -> Row:
    return {"a.b": key, "a": {"b": b, "c": f"c{b}"}}


def by_key(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda found: found["a.b"])


@pytest.mark.parametrize("order", [["a.b", "a"], ["a", "a.b"]], ids=" before ".join)
def test_column_with_a_dot_is_not_taken_for_a_field(catalog: Catalog, oracle: Oracle, order: list[str]) -> None:
    expected = {key: 10 * key for key in range(1, 5)}
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {name: COLUMNS[name] for name in order})
        with lake.transaction() as tx:
            tx.append("t", [row(key, b) for key, b in expected.items()], inline_rows=0)
        for name in order:
            assert lake.table("t").read(columns=[name]).column_names == [name]
        for changed in ({1: 10, 2: 21}, {2: 22, 5: 50}):  # the second is searched in keys that are kept
            report = lake.upsert("t", [row(key, b) for key, b in changed.items()], keys="a.b")
            assert (report.inserted, report.updated) == (len(changed.keys() - expected.keys()), 1)
            expected |= changed
        lake.delete("t", '"a.b" = 3')
        expected.pop(3)
        oracle.attach(catalog.attach)
        for keep_up in (lake.flush_inlined, lake.rewrite_data_files, lake.merge_adjacent_files):
            ours = by_key(lake.table("t").read().to_pylist())
            theirs = oracle.query('SELECT "a.b", a.b, a.c FROM t ORDER BY 1')
            assert ours == [row(key, b) for key, b in sorted(expected.items())]
            assert [row(key, b) for key, b, _ in theirs] == ours
            keep_up("t")
        assert lake.doctor(full=True) == []
