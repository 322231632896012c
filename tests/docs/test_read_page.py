"""The table of `docs/read-tables.md` has the options that the code has for reads of tables, with their defaults."""

import re
from dataclasses import fields
from pathlib import Path

from ducklake_sources.options import SourceOptions

PAGE = (Path(__file__).parents[2] / "docs" / "read-tables.md").read_text()
OF_TABLE_READS = {
    "catalog",
    "table",
    "metadata_schema",
    "data_path",
    "columns",
    "filter",
    "filter_pushdown",
    "version_as_of",
    "timestamp_as_of",
}


def test_every_option_of_table_reads_is_explained() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ", PAGE, re.MULTILINE)

    named = {re.sub(r"[A-Z]", lambda match: f"_{match.group().lower()}", name) for name in rows}
    assert named >= OF_TABLE_READS
    assert named <= {field.name for field in fields(SourceOptions)}
