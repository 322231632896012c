"""Tables of other formats, as lists of Parquet files that a lake can take over. Runs on the driver; no Spark."""
