"""Jobs: one TOML file, and the process that runs its pipelines."""
