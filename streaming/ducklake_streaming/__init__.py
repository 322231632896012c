"""Run streams into and out of a DuckLake: the command line and, later, jobs, metrics and maintenance."""
