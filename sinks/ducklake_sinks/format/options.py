"""What a write by `format("ducklake")` is told: Spark's options, parsed and checked once, every mistake at once.

Runs in Python processes of the driver; opens nothing. Most are arguments of the sink under their names in Spark's
style, as texts. Spark's option names are equal regardless of case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

from ducklake_core.errors import InvalidInput
from ducklake_core.model import SortKey
from ducklake_core.references import resolve
from ducklake_core.row_writes import INLINE_BYTES
from ducklake_core.setting_texts import parse_catalog, parse_flag, parse_storage
from ducklake_core.settings import Duration, OptionalText, Settings, Size, TableName, checked, optional, setting, text
from ducklake_core.storage_settings import StorageSettings
from ducklake_sinks.options import BAD_ROW_CHOICES, SinkOptions, one_of, partitioning, sorting

IF_TABLE_EXISTS = ("append", "ignore", "error")
OVERWRITE_MODES = ("static", "dynamic")
# A comma that is in no parentheses and in no quotes.
_BETWEEN = re.compile(r""",(?=(?:[^"]*"[^"]*")*[^"]*$)(?![^(]*\))""")
_TEXT = {"type": "string"}


def _number(value: object) -> int:
    if not isinstance(value, str) or not value.isdecimal():
        raise ValueError("a number, 0 or more")
    return int(value)


def _listed(value: object) -> object:
    return tuple(part.strip() for part in _BETWEEN.split(value)) if isinstance(value, str) else value


Flag = Annotated[bool, *checked(parse_flag, {"type": "boolean"})]
RowCount = Annotated[int, *checked(_number, {"type": "integer", "minimum": 0})]


class WriteOptions(Settings):
    """The options of `df.write` and `df.writeStream`. None: not given."""

    model_config = ConfigDict(alias_generator=to_camel)
    purpose: ClassVar[str] = "cannot write to a DuckLake"
    noun: ClassVar[str] = "option"

    catalog: Annotated[str, *checked(parse_catalog, _TEXT)] = setting(
        "a URL such as `postgresql://lake@db/lake` or `sqlite:///lake.sqlite`, or the string of DuckDB's ATTACH; "
        "`${env:NAME}` and `${file:/path}` in it stand for [values that Spark shall not show](secrets.md)"
    )
    table: TableName = setting("`table` or `schema.table`; created if it is not there")
    data_path: Annotated[str | None, *checked(optional(lambda value: resolve(text(value))), _TEXT)] = setting(
        "where files go if there is no lake yet: it is created. Else it is compared with the lake's",
        default=None,
        shown="none",
    )
    override_data_path: Flag = setting(
        "take `dataPath` though the catalog has another one: its files were moved", default=False, shown="`false`"
    )
    metadata_schema: OptionalText = setting("the PostgreSQL schema of the catalog's tables", default=None, shown="none")
    storage: Annotated[StorageSettings | None, BeforeValidator(parse_storage)] = setting(
        "how an S3 store is reached, such as `endpoint=https://s3.example.com, region=eu-1`: see "
        "[keep data on S3](object-storage.md)",
        default=None,
        shown="none",
    )
    catalog_timeout: Duration = setting(
        "how long to wait for a catalog that cannot be reached; then the write fails",
        default=timedelta(minutes=2),
        shown="`2m`",
    )
    replace_where: OptionalText = setting(
        "with `mode('overwrite')`: only the rows that match are replaced, such as `day = '2026-01-31'`, in DuckDB's "
        "SQL; the new rows must match, too",
        default=None,
        shown="all rows",
    )
    partition_overwrite_mode: Annotated[str, *checked(one_of(*OVERWRITE_MODES), {"enum": [*OVERWRITE_MODES]})] = (
        setting(
            "`dynamic`, with `mode('overwrite')`: only the partitions that get rows are replaced",
            default="static",
            shown="`static`",
        )
    )
    if_table_exists: Annotated[str, *checked(one_of(*IF_TABLE_EXISTS), {"enum": [*IF_TABLE_EXISTS]})] = setting(
        "with `mode('append')`: `ignore` writes nothing, and `error` fails, if the table is there",
        default="append",
        shown="`append`",
    )
    txn_app_id: OptionalText = setting(
        "with `txnVersion`: who writes. A version that is not higher than the last one of this name in this table "
        "writes nothing",
        default=None,
        shown="none",
    )
    txn_version: Annotated[int | None, *checked(optional(_number), {"type": "integer", "minimum": 0})] = setting(
        "the number of this write, higher than those before", default=None, shown="none"
    )
    stream: OptionalText = setting(
        "of a stream, and required there: its name in the ledger", default=None, shown="none"
    )
    checkpoint_location: OptionalText = setting(
        "of a stream, and required there: Spark's checkpoint, which tells one query from another",
        default=None,
        shown="none",
    )
    merge_schema: Flag = setting(
        "follow the schema of the data: see [schema changes](schema-changes.md)", default=False, shown="`false`"
    )
    partition_by: Annotated[tuple[str, ...], *checked(partitioning, _TEXT), BeforeValidator(_listed)] = setting(
        "for a table that is created, such as `date(ts), bucket(8, id)`", default=(), shown="none"
    )
    sorted_by: Annotated[tuple[str | SortKey, ...], *checked(sorting, _TEXT), BeforeValidator(_listed)] = setting(
        "for a table that is created, such as `id, ts DESC`", default=(), shown="none"
    )
    inline_rows: RowCount = setting(
        "the largest number of rows of a write that are inlined; 0: none", default=10_000, shown="`10000`"
    )
    inline_bytes: Size = setting(
        "the largest size of a write that is inlined, as Arrow holds it", default=INLINE_BYTES, shown="`8MB`"
    )
    on_bad_row: Annotated[str, *checked(one_of(*BAD_ROW_CHOICES), {"enum": [*BAD_ROW_CHOICES]})] = setting(
        "or `quarantine`: see [bad records](bad-records.md)", default="fail", shown="`fail`"
    )
    dead_letter_table: OptionalText = setting(
        "where quarantined rows go", default=None, shown="the table's name with `_dead_letters`"
    )
    job: OptionalText = setting("a name for people, stored in each snapshot", default=None, shown="none")

    @classmethod
    def missing(cls, name: str) -> str:
        return f"{name} is missing: name the lake by the option 'catalog' and the table by the option 'table'"

    @classmethod
    def unknown(cls, name: str) -> str:
        if name.lower() in ("path", "paths"):  # not shown: it may be an address with a password
            return "save() takes no path here: name the lake by the option 'catalog' and the table by 'table'"
        if name.lower() in {to_camel(one).lower() for one in _SINK_ONLY}:
            return f"'{name}' is for DuckLakeSink alone: df.writeStream.foreachBatch(DuckLakeSink(…)), or its append"
        return super().unknown(name)

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: each is of its own type
        if (right.get("txn_app_id") is None) != (right.get("txn_version") is None):
            yield "txnAppId and txnVersion need each other"
        if right.get("replace_where") is not None and right.get("partition_overwrite_mode") == "dynamic":
            yield "replaceWhere and partitionOverwriteMode=dynamic exclude each other"


# What a sink can do and a format cannot: it has no frame, only rows of tasks, and no thread that stays.
_SINK_ONLY = SinkOptions.model_fields.keys() - WriteOptions.model_fields.keys()
_NAMES = {name.lower(): name for name in WriteOptions.names()}


def parse_options(given: Mapping[str, str]) -> WriteOptions:
    """Return the options; raise InvalidInput that lists everything that is wrong with them."""
    if "provider" in {key.lower() for key in given}:  # Spark's, of a table in its own catalog
        raise InvalidInput(
            "Spark hands the options of CREATE TABLE … USING ducklake to nobody: use a temporary view, or df.write"
        )
    return WriteOptions.parse({_NAMES.get(key.lower(), key): value.strip() for key, value in given.items()})


def sink_options(options: WriteOptions) -> SinkOptions:
    """Return what a sink would be told. It flushes nothing: no thread stays that could."""
    names = [name for name in SinkOptions.model_fields if name not in _SINK_ONLY]
    return SinkOptions.parse({**{name: getattr(options, name) for name in names}, "flush": None})
