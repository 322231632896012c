"""Safeguards that were taken out on purpose, and the tests that notice."""
