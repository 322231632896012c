"""What a write by `format("ducklake")` is told: Spark's options, parsed and checked once. Opens nothing.

Runs in Python processes of the driver. Most are arguments of the sink under their names in Spark's style.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

from ducklake_core.errors import InvalidInput
from ducklake_core.references import resolve
from ducklake_core.setting_texts import parse_catalog, parse_flag, parse_storage
from ducklake_core.settings import OptionalText, Settings, checked, derived, optional, setting, text
from ducklake_sinks.options import CHANGE_OPTIONS, SinkOptions, one_of

# What a sink can do and a format cannot: it has no frame, only rows of tasks, and no thread that stays.
SINK_ONLY = frozenset({"route", "flush", "mode", "table_options", *CHANGE_OPTIONS})
IF_TABLE_EXISTS = ("append", "ignore", "error")
OVERWRITE_MODES = ("static", "dynamic")
# A comma that is in no parentheses and in no quotes.
_BETWEEN = re.compile(r""",(?=(?:[^"]*"[^"]*")*[^"]*$)(?![^(]*\))""")


def _version(value: object) -> int:
    if not isinstance(value, str) or not value.isdecimal():
        raise ValueError("a number, 0 or more")
    return int(value)


def _rows(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _listed(value: object) -> object:
    return tuple(part.strip() for part in _BETWEEN.split(value)) if isinstance(value, str) else value


class _OwnOptions(Settings):
    """What only a format is told."""

    model_config = ConfigDict(alias_generator=to_camel)
    purpose: ClassVar[str] = "cannot write to a DuckLake"
    noun: ClassVar[str] = "option"

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
        "with `mode('append')`: `ignore` writes nothing, and `error` fails, if the table is there. Spark keeps its "
        "modes of these names from a source in Python",
        default="append",
        shown="`append`",
    )
    txn_app_id: OptionalText = setting(
        "with `txnVersion`: who writes. A version that is not higher than the last one of this name writes nothing",
        default=None,
        shown="none",
    )
    txn_version: Annotated[int | None, *checked(optional(_version), {"type": "integer", "minimum": 0})] = setting(
        "the number of this write, higher than those before", default=None, shown="none"
    )
    checkpoint_location: OptionalText = setting(
        "of a stream: Spark's checkpoint, which tells one query from another", default=None, shown="none"
    )

    @classmethod
    def missing(cls, name: str) -> str:
        return f"{name} is missing: name the lake by the option 'catalog' and the table by the option 'table'"

    @classmethod
    def unknown(cls, name: str) -> str:
        if name.lower() in ("path", "paths"):  # not shown: it may be an address with a password
            return "save() takes no path here: name the lake by the option 'catalog' and the table by 'table'"
        if name.lower() in {to_camel(one).lower() for one in SINK_ONLY}:
            return f"'{name}' is for DuckLakeSink alone: df.writeStream.foreachBatch(DuckLakeSink(…)), or its append"
        return super().unknown(name)

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: each is of its own type
        if (right.get("txn_app_id") is None) != (right.get("txn_version") is None):
            yield "txnAppId and txnVersion need each other"
        if right.get("replace_where") is not None and right.get("partition_overwrite_mode") == "dynamic":
            yield "replaceWhere and partitionOverwriteMode=dynamic exclude each other"
        if "catalog" in right and "table" in right and right["table"] is None:
            yield cls.missing("table")


_TEXT = {"type": "string"}
_FLAG = checked(parse_flag, {"type": "boolean"})[0]
WriteOptions = derived(
    "WriteOptions",
    SinkOptions,
    base=_OwnOptions,
    leave_out=SINK_ONLY,
    around={
        "catalog": checked(parse_catalog, _TEXT)[0],
        "data_path": checked(optional(lambda value: resolve(text(value))), _TEXT)[0],
        "storage": BeforeValidator(parse_storage),
        "override_data_path": _FLAG,
        "merge_schema": _FLAG,
        "inline_rows": BeforeValidator(_rows),
        "partition_by": BeforeValidator(_listed),
        "sorted_by": BeforeValidator(_listed),
    },
)
_NAMES = {name.lower(): name for name in WriteOptions.names()}


def parse_options(given: Mapping[str, str]) -> Any:  # Any: see settings.derived
    """Return the options; raise InvalidInput that lists everything that is wrong with them."""
    if "provider" in {key.lower() for key in given}:  # Spark's, of a table in its own catalog
        raise InvalidInput(
            "Spark hands the options of CREATE TABLE … USING ducklake to nobody: use a temporary view, or df.write"
        )
    return WriteOptions.parse({_NAMES.get(key.lower(), key): value.strip() for key, value in given.items()})


def sink_options(options: Any) -> SinkOptions:  # Any: see settings.derived
    """Return what a sink would be told. It flushes nothing: no thread stays that could."""
    names = [name for name in SinkOptions.model_fields if name not in SINK_ONLY]
    return SinkOptions.parse({**{name: getattr(options, name) for name in names}, "flush": None})
