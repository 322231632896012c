"""How data files are written: the lake's options that concern Parquet (format §14), parsed once.

Pure; runs on driver and executors. Pickled with the tasks that write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ducklake_core.errors import InvalidInput

# DuckLake's names for Parquet's codecs, as pyarrow calls them.
_CODECS = {
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "brotli": "brotli",
    "lz4": "lz4",
    "lz4_raw": "lz4",
}
_LEVELS = {"gzip": (1, 9), "zstd": (1, 22), "brotli": (0, 11)}
_PAGE_VERSIONS = {"V1": "1.0", "V2": "2.0"}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The defaults are the reference's."""

    compression: str = "snappy"
    compression_level: int | None = None
    data_page_version: str = "1.0"
    row_group_rows: int = 122_880
    row_group_bytes: int | None = None
    target_file_bytes: int = 512_000_000
    hive_directories: bool = True
    sort_on_insert: bool = True
    encrypted: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Take a table's effective options; those of other concerns are ignored. Raise InvalidInput for a bad one."""
        codec = _choice(options, "parquet_compression", _CODECS, "snappy")
        return cls(
            compression=codec,
            compression_level=_level(options, codec),
            data_page_version=_choice(options, "parquet_version", _PAGE_VERSIONS, "V1"),
            row_group_rows=_positive(options, "parquet_row_group_size") or cls().row_group_rows,
            row_group_bytes=_positive(options, "parquet_row_group_size_bytes"),
            target_file_bytes=_positive(options, "target_file_size") or cls().target_file_bytes,
            hive_directories=_flag(options, "hive_file_pattern", default=True),
            sort_on_insert=_flag(options, "sort_on_insert", default=True),
            encrypted=_flag(options, "encrypted", default=False),
        )


def _choice(options: Mapping[str, str], name: str, choices: Mapping[str, str], default: str) -> str:
    wanted = options.get(name, default)
    found = {key.casefold(): value for key, value in choices.items()}.get(wanted.casefold())
    if found is None:
        raise _bad(name, wanted, f"one of {', '.join(choices)}")
    return found


def _level(options: Mapping[str, str], codec: str) -> int | None:
    """Return the level for a codec that has levels; the others ignore it, as the reference does."""
    wanted = options.get("parquet_compression_level")
    if wanted is None or codec not in _LEVELS:
        return None
    lowest, highest = _LEVELS[codec]
    if not wanted.isdecimal() or not lowest <= int(wanted) <= highest:
        raise _bad("parquet_compression_level", wanted, f"{lowest} to {highest} for {codec}")
    return int(wanted)


def _positive(options: Mapping[str, str], name: str) -> int | None:
    wanted = options.get(name)
    if wanted is None:
        return None
    if not wanted.isdecimal() or int(wanted) == 0:
        raise _bad(name, wanted, "a positive whole number")
    return int(wanted)


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    wanted = options.get(name)
    if wanted is None:
        return default
    if wanted.lower() not in ("true", "false"):
        raise _bad(name, wanted, "true or false")
    return wanted.lower() == "true"


def _bad(name: str, wanted: str, allowed: str) -> InvalidInput:
    return InvalidInput(f"option '{name}' is '{wanted}', but must be {allowed}", option=name, value=wanted)
