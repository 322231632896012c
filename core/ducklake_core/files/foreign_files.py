"""A Parquet file that somebody else wrote, as what its commit needs: counts, statistics, name mapping, partition.

Runs on the driver. Its footer is read; of its values only those that a partitioned table's directory names stand for,
where no column has them as they are. Nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from ducklake_core.errors import CorruptCatalog, NotNullViolation, SchemaMismatch, TerminalError, UnreadableFile
from ducklake_core.files.casts import cast_values
from ducklake_core.files.foreign_fields import AddRules, FieldMatcher
from ducklake_core.files.foreign_stats import constant_stats, footer_stats, unknown_stats
from ducklake_core.files.open_file import footer_size
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, ColumnStats, NameMapping, NewDataFile, PartitionKey, TableVersion
from ducklake_core.spec.arrays import single
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.names import fold
from ducklake_core.spec.partition import partition_values
from ducklake_core.spec.paths import hide_password, hive_keys, hive_values
from ducklake_core.spec.text import from_text

NEW_MAPPING = -1  # the id of a name mapping that the commit has yet to number


def read_foreign_file(storage: Storage, path: str, table: TableVersion, rules: AddRules) -> NewDataFile | None:
    """Return a file as what its commit needs, None for one without rows; raise when it does not fit the table.

    Raises SchemaMismatch, NotNullViolation, and UnreadableFile for what is no Parquet file.
    """
    try:
        with storage.open_input(path) as source:
            parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
            return _ForeignFile(storage, path, table, rules, parquet).facts() if parquet.metadata.num_rows else None
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFile(f"cannot add file '{hide_password(path)}': {error}", path=path) from error
    except TerminalError as error:
        message = f"cannot add file '{hide_password(path)}' to table '{table.qualified_name}': {error.message}"
        raise type(error)(message, **{**error.facts, "path": path}) from error


@dataclass(frozen=True, slots=True)
class _ForeignFile:
    storage: Storage
    path: str
    table: TableVersion
    rules: AddRules
    parquet: pq.ParquetFile

    def facts(self) -> NewDataFile:
        footer, size_bytes = self.parquet.metadata, self.storage.size(self.path)
        texts = {name: text for name, text in hive_values(self.path).items() if self.rules.is_in_path(name)}
        by_name = {column.name: column for column in self.table.columns if not column.is_nested}
        in_path = {name: by_name[name] for name in texts if name in by_name}
        schema, parquet_schema = self.parquet.schema_arrow, self.parquet.schema
        paths = [parquet_schema.column(index).path for index in range(footer.num_columns)]
        matcher = FieldMatcher(self.rules, paths)
        mapping = NameMapping(NEW_MAPPING, matcher.match(list(schema), self.table.columns, in_path))
        values = {name: _path_text(texts[name], column) for name, column in in_path.items()}
        stats = self._stats(matcher, in_path, values)
        _refuse_nulls(self.table, stats, schema, {c.column_id for c in matcher.missing})
        return NewDataFile(
            path=self.path,
            path_is_relative=False,
            record_count=footer.num_rows,
            file_size_bytes=size_bytes,
            footer_size=footer_size(self.storage, self.path, size_bytes),
            column_stats=tuple(stats[leaf.column_id] for c in self.table.columns for leaf in c.leaves()),
            partition_values=self._partition_values(texts, values),
            mapping=mapping,
        )

    def _stats(
        self, matcher: FieldMatcher, in_path: Mapping[str, Column], values: Mapping[str, str | None]
    ) -> dict[int, ColumnStats]:
        footer = self.parquet.metadata
        stats: dict[int, ColumnStats] = {leaf.column.column_id: footer_stats(leaf, footer) for leaf in matcher.found}
        at_top = {column.column_id for column in self.table.columns if not column.is_nested}
        for column in matcher.missing:
            has_one_value = column.initial_default is None or column.column_id in at_top
            for leaf in column.leaves():
                stats[leaf.column_id] = (
                    constant_stats(leaf, column.initial_default, footer.num_rows)
                    if has_one_value
                    else unknown_stats(leaf)  # the default of a field is null where its struct is
                )
        for name, column in in_path.items():
            stats[column.column_id] = constant_stats(column, values[name], footer.num_rows)
        return stats

    # ---- partitions

    def _partition_values(
        self, texts: Mapping[str, str | None], values: Mapping[str, str | None]
    ) -> tuple[str | None, ...] | None:
        partitioning = self.table.partitioning
        if partitioning is None or not partitioning.keys:
            return None
        names = hive_keys(partitioning.keys, self.table.columns)
        return tuple(
            self._partition_value(key, name, texts, values) for key, name in zip(partitioning.keys, names, strict=True)
        )

    def _partition_value(
        self, key: PartitionKey, name: str, texts: Mapping[str, str | None], values: Mapping[str, str | None]
    ) -> str | None:
        if name not in texts:
            raise SchemaMismatch(
                f"the table is partitioned by '{name}', and no directory of the path is called '{name}=…'",
                columns=[name],
            )
        column = next(c for c in self.table.columns if c.column_id == key.column_id)
        if key.transform == "identity":
            return _canonical(values[column.name], column)
        found = self._transformed(column, key.transform)
        told = _number_text(texts[name])
        if found != {told}:
            raise SchemaMismatch(f"its path says {name}={texts[name]}, its rows have {sorted(map(str, found))}")
        return told

    def _transformed(self, column: Column, transform: str) -> set[str | None]:
        """Return the partition values of the file's rows: a directory that tells something else would hide them."""
        name = next((f.name for f in self.parquet.schema_arrow if fold(f.name) == fold(column.name)), None)
        if name is None:
            raise SchemaMismatch(f"it has no column '{column.name}', by which the table is partitioned")
        values = cast_values(single(self.parquet.read(columns=[name]).column(name)), column)
        return set(partition_values(values, column, transform).unique().to_pylist())


def _path_text(text: str | None, column: Column) -> str | None:
    """Return the text of a directory's value, None for null; raise when it is no value of the column."""
    if text is None or (text == "" and column.type != "varchar"):
        return None
    if column.kind is Kind.TIMESTAMPTZ:
        raise SchemaMismatch(f"'{column.name}={text}' in the path tells no time zone", columns=[column.name])
    try:
        from_text(pa.array([text], pa.string()), column)
    except (CorruptCatalog, pa.ArrowException) as error:
        raise SchemaMismatch(
            f"'{column.name}={text}' in the path is no '{column.type}'", columns=[column.name]
        ) from error
    return text


def _canonical(text: str | None, column: Column) -> str | None:
    """Return the partition value of a directory's text: `8` for `08`."""
    if text is None:
        return None
    value: str | None = partition_values(from_text(pa.array([text], pa.string()), column), column, "identity")[
        0
    ].as_py()
    return value


def _number_text(text: str | None) -> str | None:
    """Return the number of a directory's text as the catalog has it: `5` for `05`, null for none."""
    return str(int(text)) if text and text.isdecimal() else text or None


def _refuse_nulls(table: TableVersion, stats: Mapping[int, ColumnStats], schema: pa.Schema, missing: set[int]) -> None:
    required = {fold(found.name) for found in schema if not found.nullable}
    for column in (c for c in table.columns if not c.nulls_allowed):
        if column.is_nested:
            has_none = fold(column.name) in required and column.column_id not in missing
        else:
            has_none = stats[column.column_id].null_count == 0
        if not has_none:
            raise NotNullViolation(
                f"column '{column.name}' forbids nulls, and the file has some or does not tell that it has none",
                column=column.name,
            )
