"""Each thing that the doctor knows, planted in a healthy lake: he finds it, nothing else, and his SQL shows it."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core import Lake
from ducklake_core.maintenance.doctor.finding import Finding
from ducklake_core.maintenance.doctor.kinds import KINDS
from tests.fixtures.broken_lakes import FILES, INLINED, MIXED, PLANTS, Healthy, fill, rows
from tests.fixtures.catalogs import Catalog
from tests.fixtures.invalid_text import break_inlined
from tests.fixtures.migration import migrate

REPAIRABLE = [code for code, kind in KINDS.items() if kind.can_repair]


@pytest.fixture
def healthy(catalog: Catalog) -> Iterator[Healthy]:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        fill(lake)
        yield Healthy(lake, catalog)


def found_in(healthy: Healthy, *, full: bool = False) -> list[tuple[str, str | None]]:
    """Return codes and tables of what is found; the SQL of each runs, and shows something."""
    findings = healthy.lake.doctor(full=full)
    for finding in findings:
        assert healthy.catalog.query(finding.sql), finding
    return [(finding.code, finding.table) for finding in findings]


def only(findings: list[Finding]) -> Finding:
    [finding] = findings
    return finding


@pytest.mark.parametrize("full", [False, True], ids=["sample", "full"])
def test_a_healthy_lake_has_a_clean_bill(healthy: Healthy, full: bool) -> None:  # noqa: FBT001 # pytest's
    assert found_in(healthy, full=full) == []


@pytest.mark.parametrize("code", KINDS)
def test_what_is_planted_is_found_and_nothing_else(healthy: Healthy, code: str) -> None:
    plant, table = PLANTS[code]
    plant(healthy)

    assert found_in(healthy) == [(code, table)]


@pytest.mark.parametrize("code", REPAIRABLE)
def test_what_is_repaired_is_found_no_more(healthy: Healthy, code: str) -> None:
    before = {name: healthy.lake.table(name).read() for name in ("files", "inlined", "mixed", "parted")}
    PLANTS[code][0](healthy)

    finding = only(healthy.lake.doctor(repair=True))

    assert finding.repaired is not None
    assert f"in snapshot {len(healthy.lake.snapshots()) - 1}" in finding.repaired
    assert healthy.lake.doctor(full=True) == []
    assert {name: healthy.lake.table(name).read() for name in before} == before
    healthy.lake.append("files", rows(200, 300))
    assert healthy.lake.doctor(full=True) == []


def test_what_cannot_be_repaired_stays_as_it_is(healthy: Healthy) -> None:
    PLANTS["lost-delete-marks"][0](healthy)
    before = healthy.catalog.dump()

    finding = only(healthy.lake.doctor(repair=True))

    assert (finding.can_repair, finding.repaired) == (False, None)
    assert healthy.catalog.dump() == before


def test_a_finding_says_how_often_and_where(healthy: Healthy) -> None:
    PLANTS["wrong-record-count"][0](healthy)

    finding = only(healthy.lake.doctor())

    assert finding.found == (
        "data files with another number of rows than the catalog says (1): "
        f"data file {healthy.file_of(FILES, 1)} has 100 rows, the catalog says 99"
    )


# ---------------------------------------------------------------------------------- more ways to be broken


def test_a_migration_under_an_open_lake_is_found(healthy: Healthy) -> None:
    migrate(healthy.catalog)
    assert found_in(healthy) == [("format-changed", None)]


def test_columns_of_another_format_are_found(healthy: Healthy) -> None:
    healthy.run("ALTER TABLE ducklake_data_file ADD COLUMN row_group_count BIGINT")
    assert found_in(healthy) == [("format-changed", None)]


def test_an_inlined_table_of_another_format_is_found(healthy: Healthy) -> None:
    [(name,)] = healthy.catalog.query(f"SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = {INLINED}")
    healthy.run(f"ALTER TABLE {name} RENAME COLUMN row_id TO _ducklake_row_id")
    assert found_in(healthy) == [("format-changed", "main.inlined")]


def test_a_head_with_nulls_is_found(healthy: Healthy) -> None:
    healthy.run("UPDATE ducklake_snapshot SET schema_version = NULL")
    assert found_in(healthy) == [("unreadable-catalog", None)]


def test_a_data_file_without_its_count_is_found(healthy: Healthy) -> None:
    healthy.run(f"UPDATE ducklake_data_file SET record_count = NULL WHERE data_file_id = {healthy.file_of(FILES)}")
    assert found_in(healthy) == [("unreadable-catalog", "main.files")]


def test_a_mark_on_a_file_that_was_rewritten_without_it_is_found(healthy: Healthy) -> None:
    file_id = healthy.file_of(MIXED)
    healthy.run(
        "UPDATE ducklake_snapshot_changes SET changes_made = 'rewrite_delete:3' WHERE snapshot_id = 9",
        f"UPDATE ducklake_data_file SET end_snapshot = 9 WHERE data_file_id = {file_id}",
        "UPDATE ducklake_delete_file SET end_snapshot = 9 WHERE table_id = 3",
    )
    healthy.mark(file_id, 5)
    assert found_in(healthy) == [("lost-delete-marks", "main.mixed")]


def test_a_delete_file_beyond_the_rows_is_found(healthy: Healthy) -> None:
    with healthy.rewritten(healthy.delete_file(), "delete") as path:
        table = pq.read_table(path)
        pq.write_table(table.set_column(1, "pos", pa.array(range(90, 110), pa.int64())), path)
    assert found_in(healthy) == [("delete-marks-beyond-rows", "main.files")]


def test_null_values_that_statistics_deny_are_found(healthy: Healthy) -> None:
    healthy.lake.append("files", {"i": [None] * 20, "s": ["x"] * 20})
    healthy.run(
        f"UPDATE ducklake_table_column_stats SET contains_null = CAST(0 AS {_flag(healthy)}) WHERE table_id = 1"
    )
    assert found_in(healthy) == [("narrow-table-statistics", "main.files")]
    healthy.lake.doctor(repair=True)
    assert found_in(healthy) == []


def test_statistics_that_leave_out_inlined_rows_are_found_in_full(healthy: Healthy) -> None:
    healthy.run(f"UPDATE ducklake_table_column_stats SET max_value = '3' WHERE table_id = {INLINED} AND column_id = 1")
    assert found_in(healthy) == []
    assert found_in(healthy, full=True) == [("narrow-table-statistics", "main.inlined")]
    healthy.lake.doctor(full=True, repair=True)
    assert found_in(healthy, full=True) == []


def test_an_inlined_text_that_is_no_utf8_is_found_in_full(healthy: Healthy) -> None:
    [(name,)] = healthy.catalog.query(f"SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = {INLINED}")
    break_inlined(healthy.catalog, name, "s", "i = 3")
    assert found_in(healthy, full=True) == [("invalid-text", "main.inlined")]


def test_row_ids_of_inlined_rows_that_files_have_are_found_in_full(healthy: Healthy) -> None:
    healthy.lake.append("files", rows(500, 502))
    [(name,)] = healthy.catalog.query(f"SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = {FILES}")
    healthy.run(f"UPDATE {name} SET row_id = 150 WHERE i = 500")
    assert found_in(healthy) == []
    assert found_in(healthy, full=True) == [("duplicate-row-ids", "main.files")]


def test_row_ids_inside_of_flushed_files_count(healthy: Healthy) -> None:
    healthy.lake.flush_inlined("inlined")
    healthy.run(f"UPDATE ducklake_table_stats SET next_row_id = 2 WHERE table_id = {INLINED}")
    assert found_in(healthy) == [("stale-next-row-id", "main.inlined")]
    healthy.lake.doctor(repair=True)
    assert healthy.number(f"SELECT next_row_id FROM ducklake_table_stats WHERE table_id = {INLINED}") == 7


def test_stale_counters_of_inlined_rows_are_found(healthy: Healthy) -> None:
    healthy.run(f"UPDATE ducklake_table_stats SET next_row_id = 2 WHERE table_id = {INLINED}")
    assert found_in(healthy) == [("stale-next-row-id", "main.inlined")]
    healthy.lake.doctor(repair=True)
    assert healthy.number(f"SELECT next_row_id FROM ducklake_table_stats WHERE table_id = {INLINED}") == 7


def test_partition_values_that_are_missing_are_found(healthy: Healthy) -> None:
    healthy.run("DELETE FROM ducklake_file_partition_value")
    assert found_in(healthy) == [("bad-partition-values", "main.parted")]


def _flag(healthy: Healthy) -> str:
    return "BIGINT" if healthy.catalog.name == "sqlite" else "BOOLEAN"
