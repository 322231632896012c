"""Takes a folder of Parquet files, or a table of another format, into a lake without copying: one snapshot each.

Runs on the driver; no Spark. The files stay where they are: docs/from-delta-or-iceberg.md tells who owns them then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from ducklake_core.added_files import READERS, find_parquet_files, full_path
from ducklake_core.errors import InvalidInput, ObjectNotFound, UnreadableFile
from ducklake_core.files.foreign_fields import AddRules
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, Snapshot, nodes_of
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.names import quoted, split_table_name
from ducklake_core.spec.paths import hide_password, hive_values
from ducklake_core.spec.types import build_columns, type_text
from ducklake_core.tables_of_others.delta_log import read_delta_table
from ducklake_core.tables_of_others.foreign_table import ForeignFile, ForeignTable
from ducklake_core.tables_of_others.iceberg_metadata import read_iceberg_table
from ducklake_core.tables_of_others.iceberg_schema import check_fields

if TYPE_CHECKING:
    from ducklake_core.lake import Lake
    from ducklake_core.transaction import Transaction

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did. `counted`: of how many files the other format told the rows, which were compared."""

    table: str
    files: int
    rows: int
    counted: int
    snapshot: Snapshot | None


def import_parquet(lake: Lake, path: str, table: str, rules: AddRules | None = None) -> ImportReport:
    """Add the Parquet files of a folder to a table, which is created from the first of them if it is not there.

    A new table has the columns of that file and of directories `column=value`, by which it is partitioned. `rules`: see
    `Lake.add_data_files`, whose errors it raises.
    """
    _refuse_tables(lake.storage, path)
    files = find_parquet_files(lake.storage, [path])
    if not files:
        raise ObjectNotFound(f"there are no Parquet files below '{hide_password(path)}'", path=path)
    with lake.transaction(message=f"import of {hide_password(path)}") as tx:
        if not tx.has_table(table):
            _create(tx, table, _table_of_files(lake.storage, files))
        rows = tx.add_files_by(table, files, rules or AddRules())
    return ImportReport(table, len(files), rows, 0, tx.result.snapshot if tx.result else None)


def import_delta(lake: Lake, path: str, table: str) -> ImportReport:
    """Make a new table of the newest version of a Delta Lake table: the same columns, partitions and files.

    Raises InvalidInput for what Parquet files alone do not tell, ObjectExists for a table that is there already.
    """
    found = read_delta_table(lake.storage, full_path(lake.storage, path))
    for file in found.files:
        _check_path(file, found.partition_by)
    columns = build_columns(found.columns)
    has_zones = any(node.kind is Kind.TIMESTAMPTZ for node in nodes_of(columns))
    if has_zones and any(_of_all_files(lake.storage, found.files, lambda _, parquet: _has_int96(parquet))):
        plain = {c.name: type_text(_without_zone(c)) for c in columns if c.name not in found.partition_by}
        found = replace(found, columns={**found.columns, **plain})  # a time in a path is of an unknown zone: refused
    return _import(lake, path, table, found)


def import_iceberg(lake: Lake, path: str, table: str) -> ImportReport:
    """Make a new table, without partitions, of the current snapshot of an Iceberg table: the same columns and files.

    `path`: the table's folder, or its newest metadata file. Raises as `import_delta`.
    """
    storage = lake.storage
    found = read_iceberg_table(storage, full_path(storage, path), lambda one: full_path(storage, one))
    _of_all_files(storage, found.files, lambda file, parquet: check_fields(parquet.schema_arrow, file, found))
    return _import(lake, path, table, found)


def _import(lake: Lake, path: str, table: str, found: ForeignTable) -> ImportReport:
    with lake.transaction(message=f"import of {hide_password(path)}, version {found.version}") as tx:
        _create(tx, table, found)
        rules = AddRules(allow_missing=True, ignore_extra_columns=True, path_columns=frozenset(found.partition_by))
        rows = tx.add_files_by(table, [file.path for file in found.files], rules) if found.files else 0
        told = [file.record_count for file in found.files if file.record_count is not None]
        if len(told) == len(found.files) and sum(told) != rows:
            raise InvalidInput(f"'{hide_password(path)}' has {sum(told)} rows by its log, but {rows} in its files")
    return ImportReport(table, len(found.files), rows, len(told), tx.result.snapshot if tx.result else None)


def _create(tx: Transaction, table: str, found: ForeignTable) -> None:
    schema, _ = split_table_name(table)
    if not tx.has_schema(schema):
        tx.create_schema(schema)
    tx.create_table(table, found.columns, partition_by=[quoted(name) for name in found.partition_by])
    for name in found.columns:
        if name in found.required:
            tx.set_not_null(table, quoted(name))


def _check_path(file: ForeignFile, partition_by: Sequence[str]) -> None:
    """Refuse a file whose path does not tell the partition it is in: a lake reads such values from there."""
    told = hive_values(file.path)
    for name in partition_by:
        value = file.partition_values.get(name)
        if name not in told or told[name] != value:
            raise InvalidInput(
                f"cannot take over file '{hide_password(file.path)}': its '{name}' is '{value}' by the log, and its "
                "path does not say so",
                path=file.path,
            )


# ------------------------------------------------------------------------------------- folders of Parquet files


def _table_of_files(storage: Storage, files: Sequence[str]) -> ForeignTable:
    in_paths = [hive_values(path) for path in files]
    keys = list(in_paths[0])
    for path, values in zip(files, in_paths, strict=True):
        if odd := values.keys() ^ in_paths[0].keys():
            raise InvalidInput(
                f"only some paths tell '{min(odd)}=…', and not both of '{hide_password(files[0])}' and "
                f"'{hide_password(path)}': import folders with the same keys, or create the table first",
                path=path,
            )
    schema = _of_file(storage, files[0], lambda parquet: parquet.schema_arrow)
    columns = {c.name: type_text(c) for c in build_columns(schema) if c.name not in keys}
    columns |= {key: _type_of_texts([values[key] for values in in_paths]) for key in keys}
    return ForeignTable(0, columns, frozenset(), tuple(keys), ())


def _type_of_texts(texts: Sequence[str | None]) -> str:
    """Return the type of a column whose values are directories' names: a number, a date or text."""
    values = pa.array([text or None for text in texts], pa.string())
    for type_, name in ((pa.int64(), "int64"), (pa.date32(), "date")):
        try:
            values.cast(type_)
        except pa.ArrowInvalid:
            continue
        return name if values.null_count < len(values) else "varchar"
    return "varchar"


def _refuse_tables(storage: Storage, path: str) -> None:
    """Refuse the folder of a table: its log tells which files are part of it, and others lie there, too."""
    folder = full_path(storage, path).rstrip("/")
    if storage.has_directory(f"{folder}/_delta_log"):
        what, remedy = "a Delta table", "use 'ducklake-stream import delta'"
    elif storage.has_directory(f"{folder}/_spark_metadata"):
        what, remedy = "what a stream of Spark wrote", 'read it with Spark, and write it with format("ducklake")'
    elif any(name.endswith(".metadata.json") for name in storage.files_in(f"{folder}/metadata")):
        what, remedy = "an Iceberg table", "use 'ducklake-stream import iceberg'"
    else:
        return
    raise InvalidInput(f"'{hide_password(path)}' is {what}, of which not every file is a part: {remedy}", path=path)


# ---------------------------------------------------------------------------------------------- footers of files


def _of_all_files(
    storage: Storage, files: Sequence[ForeignFile], look: Callable[[ForeignFile, pq.ParquetFile], Result]
) -> list[Result]:
    with ThreadPoolExecutor(READERS) as readers:
        return list(readers.map(lambda f: _of_file(storage, full_path(storage, f.path), partial(look, f)), files))


def _of_file(storage: Storage, path: str, look: Callable[[pq.ParquetFile], Result]) -> Result:
    try:
        with storage.open_input(path) as source:
            return look(pq.ParquetFile(source, coerce_int96_timestamp_unit="us"))
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFile(f"cannot read file '{hide_password(path)}': {error}", path=path) from error


def _has_int96(parquet: pq.ParquetFile) -> bool:
    """Tell whether times are of Parquet's old form, which has no zone: Spark's default, in UTC by what it means."""
    leaves = parquet.schema
    return any(leaves.column(index).physical_type == "INT96" for index in range(len(leaves)))


def _without_zone(column: Column) -> Column:
    type_ = "timestamp" if column.kind is Kind.TIMESTAMPTZ else column.type
    return replace(column, type=type_, children=tuple(map(_without_zone, column.children)))
