"""Read tables and change feeds of a DuckLake in Spark. Nothing is here yet: it is a later part of the project."""
