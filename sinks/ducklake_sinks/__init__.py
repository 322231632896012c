"""Write Spark micro-batches into a DuckLake. Nothing is here yet: the sink is the next part of the project."""
