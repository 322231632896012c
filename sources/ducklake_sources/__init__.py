"""Read DuckLake tables in Spark: `spark.read.format("ducklake")`, which Spark finds by itself."""
