"""How the parts of a batch get into the lake's transaction: one module for each mode."""
