"""Read DuckLake tables in Spark: by `format("ducklake")`, which Spark finds by itself, by its own scan, and more."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ducklake_sources.change_stream import stream_changes
    from ducklake_sources.changes_scan import native_changes
    from ducklake_sources.lake_frames import RegisteredViews, register_views
    from ducklake_sources.lake_table import DuckLakeTable
    from ducklake_sources.native_scan import native_table, read_table

    __version__: str

_MODULES = {
    "DuckLakeTable": "lake_table",
    "RegisteredViews": "lake_frames",
    "native_changes": "changes_scan",
    "native_table": "native_scan",
    "read_table": "native_scan",
    "register_views": "lake_frames",
    "stream_changes": "change_stream",
}
__all__ = [
    "DuckLakeTable",
    "RegisteredViews",
    "native_changes",
    "native_table",
    "read_table",
    "register_views",
    "stream_changes",
]


def __getattr__(name: str) -> Any:  # Any: fixed by Python
    """Import the scan when it is used: Spark imports this package whenever it looks for a format."""
    if name == "__version__":
        from ducklake_core.version import package_version  # noqa: PLC0415 # see above

        return package_version()
    if name not in __all__:
        raise AttributeError(name)
    return getattr(import_module(f"ducklake_sources.{_MODULES[name]}"), name)
