"""Catalog databases behind Python's database interface (PEP 249): statement by statement, rows by executemany."""
