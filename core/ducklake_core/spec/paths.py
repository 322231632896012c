"""Paths of files as the format has them (format §11): how they are composed, shown and stored. Pure; runs everywhere.

Full paths are plain concatenation, restarted by an absolute part. The hive directories of partitioned tables are
cosmetic: no reader parses them, except for files that were added with a name mapping.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote
from uuid import UUID

from ducklake_core.model import Column, PartitionKey

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_DUCKDB_NULL = "NULL"  # in any case, and as it is: DuckDB takes %4EULL for text
_LONGEST_NAME = 255  # bytes of one directory's name, on every common filesystem
_OTHER_NAMES = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names for its clients of one storage


def join_path(parent: str, path: str, *, is_relative: bool) -> str:
    """Return the full path of a part; directories end in a slash."""
    return parent + path if is_relative else path


def directory_name(name: str, uuid: UUID) -> str:
    """Return the directory of a schema or table: its name if that is plain, else its uuid."""
    return f"{name}/" if is_plain_name(name) else f"{uuid}/"


def is_plain_name(name: str) -> bool:
    """Tell whether the directory of a schema or table with this name has it, too."""
    return re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None


def same_storage(path_or_url: str) -> str:
    """Return the URL by the storage's own name: `s3://…` for Hadoop's `s3a://…`."""
    scheme, separator, rest = path_or_url.partition("://")
    return f"{_OTHER_NAMES.get(scheme.lower(), scheme)}{separator}{rest}"


def hadoop_storage(path_or_url: str) -> str:
    """Return the URL by the name that Spark knows the storage by: `s3a://…` for `s3://…`."""
    scheme, separator, rest = path_or_url.partition("://")
    return f"s3a{separator}{rest}" if separator and scheme.lower() in ("s3", "s3n") else path_or_url


def is_below(path: str, directory: str) -> bool:
    """Tell whether a file is in a directory or below it; one whose path goes up again is not."""
    inside = same_storage(path).startswith(same_storage(directory).rstrip("/") + "/")
    return inside and ".." not in path.split("/")


def hide_password(path_or_url: str) -> str:
    """Return a path or URL as it may be shown: without a user and a password before its host."""
    return re.sub(r"//[^/@]*@", "//***@", path_or_url)


def relative_to(path: str, directory: str) -> tuple[str, bool]:
    """Return what the catalog stores for a path, and whether that is relative to the directory."""
    if directory and path.startswith(directory):
        return path[len(directory) :], True
    return path, False


def hive_keys(keys: Sequence[PartitionKey], columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the directory key of each partition key, as the reference names them: `year`, then `year_b`."""
    names = {column.column_id: column.name for column in columns}
    taken: list[str] = []
    for key in keys:
        column = names[key.column_id]
        name = column if key.transform == "identity" else key.transform.partition("(")[0]
        taken.append(f"{name}_{column}" if name in taken else name)
    return tuple(taken)


def hive_directory(keys: Sequence[str], values: Sequence[str | None]) -> str:
    """Return the directory of one partition, such as `year=2020/name=a%2Fb/`.

    A value too long for a directory's name gives no directory at all: the reference fails there.
    """
    names = [f"{_encode(key)}={_encode_value(value)}" for key, value in zip(keys, values, strict=True)]
    if any(len(name) > _LONGEST_NAME for name in names):
        return ""
    return "".join(f"{name}/" for name in names)


def hive_values(path: str) -> dict[str, str | None]:
    """Return the values that the directories of a path carry, by key, as DuckDB reads them.

    Of two with one key the upper one counts, and NULL is null in any case.
    """
    pairs = [part.split("=", 1) for part in path.split("/")[:-1] if "=" in part]
    values: dict[str, str | None] = {}
    for key, value in pairs:
        is_null = value == HIVE_NULL or value.upper() == _DUCKDB_NULL
        values.setdefault(unquote(key), None if is_null else unquote(value))
    return values


def _encode_value(value: str | None) -> str:
    return HIVE_NULL if value is None else _encode(value)


def _encode(text: str) -> str:
    return quote(text, safe="")
