"""What a DuckLake is, without Spark."""
