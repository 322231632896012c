"""What the format says: versions, catalog tables, types, text encodings. No I/O."""
