"""The demonstration: a Spark stream of simulated vehicles into a new lake, shown while it runs and opened in DuckDB."""
