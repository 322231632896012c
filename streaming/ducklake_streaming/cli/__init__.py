"""The command `ducklake-stream`. Runs on a laptop or on the driver; what is no Spark job needs neither Spark nor Java.

`app` holds the commands and `main`, `lake_command` gives a command its lake, `output` shows what it found. A module of
commands imports nothing heavy at its top: Spark, PyArrow and the lake are imported by the functions that use them.
"""

from ducklake_streaming.cli.app import main

__all__ = ["main"]
