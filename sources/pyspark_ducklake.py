"""Give Spark the name it discovers by itself, so that `format("ducklake")` needs no registration.

Spark imports every module called `pyspark_…` when it looks for a format, and takes the `DefaultSource` in it.
"""

from ducklake_sources.data_source import DuckLakeDataSource as DefaultSource

__all__ = ["DefaultSource"]
