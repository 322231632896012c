"""Changes by key: events become inserts, updates and deletes of a table's rows, each row found by its key first."""
