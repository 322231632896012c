"""Avro: what a schema means, and how values are read. Rows by fastavro; most schemas a column at a time by numpy."""
