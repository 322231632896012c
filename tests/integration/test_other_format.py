"""A format with other tables is one entry of `spec/versions.py`: here one that there never was."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import UnsupportedFormatVersion
from ducklake_core.spec.versions import CURRENT, FORMATS, Feature, Format, FormatVersion, Layout
from tests.fixtures.catalogs import Catalog
from tests.fixtures.migration import run_by_hand

OTHER = FormatVersion("9.9-test")
ENTRY = Format(
    frozenset({Feature.READ}),
    Layout(
        names={
            "ducklake_file_column_stats": "ducklake_file_column_statistics",
            "ducklake_data_file.record_count": "row_count",
            "ducklake_column.column_name": "title",
        },
        lacks={
            "ducklake_data_file.partial_max": None,
            "ducklake_table.path_is_relative": True,
            "ducklake_snapshot_changes.author": "somebody",
            "ducklake_sort_info": None,
            "ducklake_sort_expression": None,
        },
    ),
)
MIGRATION = (
    "ALTER TABLE ducklake_file_column_stats RENAME TO ducklake_file_column_statistics",
    "ALTER TABLE ducklake_data_file RENAME COLUMN record_count TO row_count",
    "ALTER TABLE ducklake_column RENAME COLUMN column_name TO title",
    "ALTER TABLE ducklake_data_file DROP COLUMN partial_max",
    "ALTER TABLE ducklake_table DROP COLUMN path_is_relative",
    "ALTER TABLE ducklake_snapshot_changes DROP COLUMN author",
    "DROP TABLE ducklake_sort_info",
    "DROP TABLE ducklake_sort_expression",
    "ALTER TABLE ducklake_snapshot ADD COLUMN weather VARCHAR",  # what is added disturbs nobody
    f"UPDATE ducklake_metadata SET value = '{OTHER.text}' WHERE key = 'version'",
)


@pytest.fixture
def lake(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """Give a lake with inlined rows, files, deletes and changes of columns, in a place that knows the other format."""
    monkeypatch.setitem(FORMATS, OTHER.text, ENTRY)
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64", "name": "varchar"})
        lake.append("t", {"id": [1, 2], "name": ["a", "b"]})
        lake.append("t", {"id": list(range(100)), "name": ["x"] * 100})
        lake.append("t", {"id": list(range(100, 200)), "name": ["y"] * 100})
        lake.add_column("t", "more", "int32")
        lake.delete("t", "id = 7")
        yield lake


def everything(lake: Lake) -> list[object]:
    table = lake.table("t")
    reads = [table.read(), table.read(filter="id > 150 AND name = 'y'"), lake.changes("t", 0)]
    found: list[object] = [_rows(read) for read in reads]
    found += [[c.name for c in table.version.columns], table.count(), lake.inlined_state("t")]
    return [*found, [(s.snapshot_id, s.snapshot_time, s.changes) for s in lake.snapshots()]]


def _rows(read: pa.Table) -> list[str]:
    return sorted(map(repr, read.to_pylist()))


def test_a_lake_of_other_tables_reads_the_same_by_one_entry(lake: Lake, catalog: Catalog) -> None:
    before = everything(lake)

    run_by_hand(catalog, MIGRATION)

    assert everything(lake) == before
    assert {s.author for s in lake.snapshots()} == {"somebody"}
    assert lake.database.version == OTHER != CURRENT


def test_what_such_a_format_does_not_support_is_refused(lake: Lake, catalog: Catalog) -> None:
    run_by_hand(catalog, MIGRATION)

    with pytest.raises(UnsupportedFormatVersion, match=r"format '9\.9-test', but writing needs format '1\.0'"):
        lake.append("t", {"id": [3], "name": ["c"], "more": [1]})
