"""Everything that talks to the catalog database. Runs on the driver, and on executors that read inlined rows."""
