"""Reading a table at a snapshot: what the catalog lists, shared out or not, then files and inlined rows."""
