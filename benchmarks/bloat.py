"""How large the catalog's busy tables get on PostgreSQL while rows are inlined and flushed, by how it is vacuumed.

Run as `python -m benchmarks.bloat`. Three servers do the same at the same pace: autovacuum off, as PostgreSQL has it,
and as docs/postgres.md advises. No size is asserted: docs/postgres.md has some.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pyarrow as pa

from ducklake_core import Epoch, Lake, Transaction
from tests.fixtures.postgres import FAST_AND_FRAGILE, PostgresDatabase, run_postgres

ADVICE = Path(__file__).parents[1] / "deploy" / "postgres" / "autovacuum.sql"
WAYS: Mapping[str, Mapping[str, str]] = {
    "off": {"autovacuum": "off"},
    "default": {},
    "advised": {"autovacuum_naptime": "10s"},
}
WATCHED = (
    "ducklake_inlined_data_%",
    "ducklake_table_stats",
    "ducklake_table_column_stats",
    "ducklake_streaming_epochs",
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--batches", type=int, default=10, help="how many commits are flushed together")
    parser.add_argument("--rows", type=int, default=500, help="of each commit")
    options = parser.parse_args(arguments)
    with ThreadPoolExecutor(len(WAYS)) as threads:
        runs = {way: threads.submit(measure, way, options.seconds, options.batches, options.rows) for way in WAYS}
    print(f"{'autovacuum':<12}{'flushes':>9}{'table':>32}{'live rows':>11}{'kB':>9}")
    for way, run in runs.items():
        flushes, sizes = run.result()
        for table, rows, size in sizes:
            print(f"{way:<12}{flushes:>9}{table:>32}{rows:>11}{size // 1024:>9}")


def measure(way: str, seconds: float, batches: int, rows: int) -> tuple[int, list[tuple[str, int, int]]]:
    """Return how many flushes there were, and of each busy table its rows and bytes."""
    with tempfile.TemporaryDirectory() as folder, run_postgres({**FAST_AND_FRAGILE, **WAYS[way]}) as server:
        database = server.create_database()
        with Lake.create(database.url, folder) as lake:
            lake.set_option("data_inlining_row_limit", rows)
            lake.create_table("t", {"id": "int64", "name": "varchar"})
            lake.ledger_entry("s")
            flushes, end = 0, time.monotonic() + seconds
            while time.monotonic() < end:
                _write(lake, flushes * batches, batches, rows)
                if flushes == 0 and way == "advised":
                    with psycopg.connect(database.conninfo, autocommit=True) as connection:
                        connection.execute(ADVICE.read_bytes())
                lake.flush_inlined()
                flushes += 1
                time.sleep(0.5)
        return flushes, _sizes(database)


def _write(lake: Lake, first: int, batches: int, rows: int) -> None:
    data = pa.table({"id": range(rows), "name": ["some text"] * rows})

    def append(tx: Transaction) -> None:
        tx.append("t", data)

    for batch in range(first, first + batches):
        lake.commit_epoch(Epoch("s", batch, "q", "r"), append)


def _sizes(database: PostgresDatabase) -> list[tuple[str, int, int]]:
    like = " OR ".join(f"relname LIKE '{one}'" for one in WATCHED)
    asked = f"SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r' AND ({like}) ORDER BY 1"
    with psycopg.connect(database.conninfo, autocommit=True) as connection:
        found = connection.execute(asked.encode()).fetchall()
        return [
            (name, connection.execute(f"SELECT count(*) FROM {name}".encode()).fetchall()[0][0], size)
            for name, size in found
            if name != "ducklake_inlined_data_tables"
        ]


if __name__ == "__main__":
    main()
