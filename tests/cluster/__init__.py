"""Spark on more than one process: a course of steps, and clusters that it runs on."""
