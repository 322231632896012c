"""Read DuckLake tables in Spark: `spark.read.format("ducklake")`, which Spark finds by itself, and `native_table`."""

from ducklake_sources.native_scan import native_table

__all__ = ["native_table"]
