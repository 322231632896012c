"""Write Spark micro-batches into a DuckLake, each exactly once.

from ducklake_sinks import DuckLakeSink, FlushPolicy

sink = DuckLakeSink("postgresql://…/lake", table="main.events", flush=FlushPolicy(rows=100_000))
events.writeStream.foreachBatch(sink).option("checkpointLocation", "…").start()
"""

from ducklake_core.version import package_version
from ducklake_sinks.flush_policy import FlushPolicy
from ducklake_sinks.sink import DuckLakeSink
from ducklake_sinks.transaction import SinkTransaction

__all__ = ["DuckLakeSink", "FlushPolicy", "SinkTransaction"]

__version__ = package_version()
