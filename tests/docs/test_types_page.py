"""The table of `docs/types.md` says what the code does: each cell is asked of the code or of pyarrow."""

import re
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ducklake_core.catalog.dbapi.sqlite_rules import SQLITE_RULES
from ducklake_core.catalog.postgres.rules import POSTGRES_RULES
from ducklake_core.errors import UnsupportedType
from ducklake_core.files.parquet_types import find_unwritable, parquet_field
from ducklake_core.model import Column
from ducklake_core.spec.inlined import InlinedRules, find_uninlinable, inlined_type
from ducklake_core.spec.types import SCALARS, arrow_type, build_column, parse_type
from ducklake_sources.spark_schema import spark_schema

PAGE = Path(__file__).parents[2] / "docs" / "types.md"
HEADER = ("DuckLake", "Arrow", "Spark", "inlined in PostgreSQL", "inlined in SQLite", "Parquet")
TYPES = (
    *SCALARS,
    "decimal(9,2)",
    "decimal(18,2)",
    "decimal(38,2)",
    "int32[]",
    "struct(a int32)",
    "map(varchar, int32)",
)
NONE = "–"


def test_the_table_of_types_is_what_the_code_does() -> None:
    expected = "\n".join(table_lines())

    assert expected in PAGE.read_text(), f"put this into docs/types.md:\n{expected}"


def table_lines() -> list[str]:
    rows = [row_of(type_) for type_ in TYPES]
    return [
        _line(HEADER),
        _line(["---"] * len(HEADER)),
        *(_line(f"`{c}`" if c != NONE else c for c in r) for r in rows),
    ]


def row_of(type_: str) -> list[str]:
    column = build_column("c", parse_type(type_), 1)
    return [
        type_,
        re.sub(r"^extension<(.*)>$", r"\1", str(arrow_type(column))) if has_values(column) else NONE,
        spark_of(column),
        inlined_of(column, POSTGRES_RULES),
        inlined_of(column, SQLITE_RULES),
        parquet_of(column),
    ]


def has_values(column: Column) -> bool:
    return find_unwritable([column]) is None


def spark_of(column: Column) -> str:
    """Return the type in which Spark reads such a column."""
    try:
        return spark_schema([column])[0].dataType.simpleString()
    except UnsupportedType:
        return NONE


def inlined_of(column: Column, rules: InlinedRules) -> str:
    try:
        return inlined_type(column, rules).lower() if find_uninlinable([column], rules) is None else NONE
    except UnsupportedType:
        return NONE


def parquet_of(column: Column) -> str:
    """Return physical and logical type of each leaf, as a file says them."""
    if not has_values(column):
        return NONE
    sink = BytesIO()
    schema = pa.schema([parquet_field(column)])
    pq.write_table(pa.Table.from_batches([], schema), sink, store_decimal_as_integer=True, store_schema=False)
    leaves = pq.ParquetFile(sink).schema
    return ", ".join(_leaf(leaves.column(index)) for index in range(len(leaves)))


def _leaf(leaf: pq.ColumnSchema) -> str:
    physical = f"FIXED({leaf.length})" if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" else leaf.physical_type
    logical = str(leaf.logical_type)
    return physical if logical == "None" else f"{physical} {_short(logical)}"


def _short(logical: str) -> str:
    """Return a logical type without the words that say nothing here."""
    for word in ("is_from_converted_type=false", "force_set_converted_type=false", "is_from_converted_type=true"):
        logical = logical.replace(f", {word}", "")
    return logical.replace("isAdjustedToUTC", "UTC").replace("timeUnit=", "").replace("bitWidth=", "")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
