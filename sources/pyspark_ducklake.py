"""Give Spark the name it discovers by itself, so that `format("ducklake")` needs no registration.

Nothing is here yet: `DefaultSource` comes with the data source in `ducklake_sources`.
"""
