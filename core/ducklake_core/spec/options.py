"""Options of a lake (format §14): what each may be, and which value is in force for a table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ducklake_core.errors import InvalidInput
from ducklake_core.model import SchemaId, TableId
from ducklake_core.spec.names import nearest_name
from ducklake_core.spec.quantities import parse_size

DEFAULT_ROW_LIMIT = 10  # the reference's

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


def effective_options(options: Options, schema_id: SchemaId, table_id: TableId) -> dict[str, str]:
    """Return the options in force for a table: its own, then its schema's, then the lake's."""
    scopes: tuple[Scope, ...] = ((None, None), ("schema", schema_id), ("table", table_id))
    return {name: value for scope in scopes for name, value in options.get(scope, {}).items()}


def inlined_row_limit(effective: Mapping[str, str]) -> int:
    """Return how many rows of one write are inlined at most; 0: none."""
    text = effective.get("data_inlining_row_limit")
    if text is None:
        return DEFAULT_ROW_LIMIT
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"the lake's option 'data_inlining_row_limit' is '{text}', not a number") from None


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
