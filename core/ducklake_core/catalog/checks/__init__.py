"""What the doctor asks of the catalog, and how it mends it. SQL that finds nothing in a healthy lake."""
