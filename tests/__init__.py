"""Tests. A package, so that `tests.fixtures` is ours whatever else is installed."""
