"""Options of a lake (format §14): what each may be, and what is in force for a table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from ducklake_core.errors import InvalidInput
from ducklake_core.model import SchemaId, TableId
from ducklake_core.spec.names import nearest_name
from ducklake_core.spec.quantities import parse_size
from ducklake_core.spec.write_options import WriteOptions

DEFAULT_ROW_LIMIT = 10  # the reference's, as this
DEFAULT_DELETE_THRESHOLD = 0.95

Scope = tuple[str | None, int | None]  # (None, None), ("schema", id) or ("table", id)
Options = Mapping[Scope, Mapping[str, str]]


def normalize_option(name: str, value: object) -> str:
    """Return the text of an option's value as the reference stores it; refuse what it would not understand."""
    parse = _PARSERS.get(name.lower())
    if parse is None:
        near = nearest_name(name.lower(), _PARSERS)
        hint = f"did you mean '{near}'?" if near else f"known are {', '.join(_PARSERS)}"
        raise InvalidInput(f"unknown option '{name}'; {hint}", option=name)
    try:
        return parse(value)
    except ValueError as error:
        raise InvalidInput(f"option '{name}' cannot be '{value}': {error}", option=name) from None


@dataclass(frozen=True)
class TableOptions:
    """What is in force for one table, or for the lake as a whole.

    Each is parsed once, when it is first asked for: a bad value, which another program wrote, hinders only those who
    need it.
    """

    texts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_table(cls, options: Options, schema_id: SchemaId, table_id: TableId) -> Self:
        """Take the table's own, then its schema's, then the lake's."""
        scopes: tuple[Scope, ...] = ((None, None), ("schema", schema_id), ("table", table_id))
        return cls({name: value for scope in scopes for name, value in options.get(scope, {}).items()})

    @classmethod
    def of_lake(cls, options: Options) -> Self:
        return cls(options.get((None, None), {}))

    @cached_property
    def row_limit(self) -> int:
        """How many rows of one write are inlined at most; 0: none."""
        text = self.texts.get("data_inlining_row_limit")
        if text is None:
            return DEFAULT_ROW_LIMIT
        try:
            return int(text)
        except ValueError:
            raise InvalidInput(f"the lake's option 'data_inlining_row_limit' is '{text}', not a number") from None

    @cached_property
    def files(self) -> WriteOptions:
        """How data files are written."""
        return WriteOptions.from_options(self.texts)

    @property
    def encrypted(self) -> bool:
        return self.texts.get("encrypted") == "true"

    @cached_property
    def requires_message(self) -> bool:
        """Whether every commit must have a message."""
        return self.texts.get("require_commit_message") == "true"

    @cached_property
    def rewrite_delete_threshold(self) -> float:
        """Which share of a file's rows must be deleted for it to be rewritten."""
        text = self.texts.get("rewrite_delete_threshold", str(DEFAULT_DELETE_THRESHOLD))
        try:
            return float(text)
        except ValueError:
            raise InvalidInput(f"the lake's option 'rewrite_delete_threshold' is '{text}', not a number") from None

    @property
    def auto_compact(self) -> bool:
        """Whether what tidies up all tables does so with this one."""
        return self.texts.get("auto_compact") != "false"


def _count(value: object) -> str:
    number = int(str(value))
    if number < 0:
        raise ValueError("a number of zero or more is needed")
    return str(number)


def _size(value: object) -> str:
    try:
        return str(parse_size(value, least=0))
    except ValueError as error:
        raise ValueError(f"{error} is needed") from None


def _flag(value: object) -> str:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ValueError("true or false is needed")
    return text


def _fraction(value: object) -> str:
    if not 0 <= float(str(value)) <= 1:
        raise ValueError("a number from 0 to 1 is needed")
    return f"{float(str(value)):f}"


def _choice(*choices: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        found = next((c for c in choices if c.lower() == str(value).lower()), None)
        if found is None:
            raise ValueError(f"one of {', '.join(choices)} is needed")
        return found

    return parse


def _version(value: object) -> str:
    text = str(value).upper().removeprefix("V")
    if text not in ("1", "2"):
        raise ValueError("1 or 2 is needed")
    return f"V{text}"


_PARSERS: Mapping[str, Callable[[object], str]] = {
    "data_inlining_row_limit": _count,
    "target_file_size": _size,
    "parquet_compression": _choice("uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4", "lz4_raw"),
    "parquet_version": _version,
    "parquet_compression_level": _count,
    "parquet_row_group_size": _count,
    "parquet_row_group_size_bytes": _size,
    "hive_file_pattern": _flag,
    "require_commit_message": _flag,
    "rewrite_delete_threshold": _fraction,
    "delete_older_than": str,
    "expire_older_than": str,
    "auto_compact": _flag,
    "per_thread_output": _flag,
    "sort_on_insert": _flag,
}
