"""Read DuckLake tables in Spark: `spark.read.format("ducklake")`, which Spark finds by itself, and what is beside."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ducklake_sources.lake_frames import RegisteredViews, register_views
    from ducklake_sources.lake_table import DuckLakeTable
    from ducklake_sources.native_scan import native_table

    __version__: str

__all__ = ["DuckLakeTable", "RegisteredViews", "native_table", "register_views"]

_MODULES = {"DuckLakeTable": "lake_table", "native_table": "native_scan"}


def __getattr__(name: str) -> Any:  # Any: fixed by Python
    """Import the scan when it is used: Spark imports this package whenever it looks for a format."""
    if name == "__version__":
        from ducklake_core.version import package_version  # noqa: PLC0415 # see above

        return package_version()
    if name not in __all__:
        raise AttributeError(name)
    return getattr(import_module(f"ducklake_sources.{_MODULES.get(name, 'lake_frames')}"), name)
