"""The change feed of a table: what its rows did from one snapshot to another.

The driver asks the catalog what there is (`history`, `listing`, by way of `table_feed`), measures it (`sizes`) and
shares it out (`sharing`) into tasks (`task`); whoever has a task reads it (`rows`, from `events`).
"""
