"""Read DuckLake tables in Spark: `spark.read.format("ducklake")`, which Spark finds by itself, and `native_table`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ducklake_sources.native_scan import native_table

    __version__: str

__all__ = ["native_table"]


def __getattr__(name: str) -> Any:  # Any: fixed by Python
    """Import the scan when it is used: Spark imports this package whenever it looks for a format."""
    if name == "__version__":
        from ducklake_core.version import package_version  # noqa: PLC0415 # see above

        return package_version()
    if name not in __all__:
        raise AttributeError(name)
    from ducklake_sources import native_scan  # noqa: PLC0415 # see above

    return getattr(native_scan, name)
