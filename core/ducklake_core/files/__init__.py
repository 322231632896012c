"""Parquet out and in, delete files, paths and storage. Runs on driver and executors; no catalog access."""
