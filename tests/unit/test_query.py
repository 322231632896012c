"""Queries of the catalog and the names of their rows."""

import re
from typing import Any

import pytest
from sqlalchemy import Select, select

from ducklake_core.catalog import file_queries, queries
from ducklake_core.catalog.inlined_tables import inlined_delete_table
from ducklake_core.catalog.query import Query, select_fields
from ducklake_core.model import TableId
from ducklake_core.spec.rows import SchemaVersionRow
from ducklake_core.spec.tables import PLAIN_VALUES, catalog_tables
from ducklake_core.spec.versions import FORMATS, Feature, Format, FormatVersion, Layout

TABLES = catalog_tables(None, PLAIN_VALUES)


def test_rows_get_the_names_of_what_was_selected() -> None:
    query = Query(SchemaVersionRow, select_fields(SchemaVersionRow, TABLES.ducklake_schema_versions))

    [row] = query.named([(3, 7)])

    assert (row.begin_snapshot, row.schema_version) == (3, 7)


def test_a_query_that_selects_other_columns_than_its_rows_have_is_refused() -> None:
    versions = TABLES.ducklake_schema_versions

    with pytest.raises(TypeError, match="SchemaVersionRow selects schema_version, begin_snapshot"):
        Query(SchemaVersionRow, select(versions.c.schema_version, versions.c.begin_snapshot))


def test_a_format_without_a_column_has_a_literal_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every query compiles for it, as it does for a format that calls a table or a column otherwise."""
    layout = Layout(
        names={"ducklake_file_column_stats": "stats_of_old", "ducklake_table_stats.next_row_id": "row_ids_end"},
        lacks={"ducklake_data_file.partial_max": None, "ducklake_delete_file.format": "puffin", "ducklake_tag": None},
    )
    monkeypatch.setitem(FORMATS, "0.0-test", Format(frozenset({Feature.READ}), layout))
    t = catalog_tables(None, PLAIN_VALUES, FormatVersion.parse("0.0-test"))

    selects: list[Select[Any]] = [  # Any: as in Query
        file_queries.data_files(t).select,
        file_queries.new_data_files(t).select,
        file_queries.data_files_among(t, inlined_delete_table(TableId(1), None)).select,
        file_queries.file_column_stats(t).select,
        queries.table_stats(t).select,
        queries.tags(t).select,
    ]
    compiled = [one.compile() for one in selects]
    sql = [str(one) for one in compiled]

    for text, parameters in zip(sql[:3], (one.params for one in compiled), strict=False):
        assert re.search(r"CAST\(:\w+ AS BIGINT\) AS partial_max", text)
        assert "puffin" in parameters.values()
    assert "FROM stats_of_old" in sql[3]
    assert "row_ids_end" in sql[4]
    assert "ducklake_tag" not in {table.name for table in t.metadata.sorted_tables}
