"""DuckLake without Spark: create, write and read lakes on SQLite and PostgreSQL.

from ducklake_core import Lake

lake = Lake.create("sqlite:///lake.sqlite", data_path="lake/")
"""

from ducklake_core.lake import Lake
from ducklake_core.table import Table
from ducklake_core.transaction import Transaction

__all__ = ["Lake", "Table", "Transaction"]
