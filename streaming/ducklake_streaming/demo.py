"""The demonstration: a lake on SQLite, fed by simulated vehicles, then shown. Runs without Spark and without DuckDB."""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from ducklake_core import Lake, Table
from ducklake_streaming.vehicles import SCHEMA, Fleet

TABLE = "main.readings"
INLINING_ROW_LIMIT = 1000
BACKLOG_ROWS = 5000
MARKER = "made-by-ducklake-stream-demo"


class DemoError(Exception):
    """The demonstration cannot be given here; the message says what helps."""


@dataclass(frozen=True, slots=True)
class Demo:
    """Where the lake goes, and how much is streamed into it."""

    directory: Path
    batches: int
    rows_per_batch: int

    @property
    def catalog(self) -> Path:
        return self.directory.resolve() / "catalog.sqlite"

    @property
    def data(self) -> Path:
        return self.directory.resolve() / "data"


def run_demo(demo: Demo) -> None:
    """Make the lake anew, stream into it and print what is there. Raises DemoError if the directory is not ours."""
    make_directory(demo.directory)
    with Lake.create(f"sqlite:///{demo.catalog}", data_path=f"{demo.data}/") as lake:
        lake.create_table(TABLE, SCHEMA, partition_by=["day(ts)"])
        lake.set_option("data_inlining_row_limit", INLINING_ROW_LIMIT, table=TABLE)
        print(f"Made a lake in {demo.directory}: the catalog is catalog.sqlite, Parquet files go to data/.\n")
        stream(lake, demo)
        show_catalog(lake)
    show_how_to_open(demo)


def make_directory(directory: Path) -> None:
    """Make an empty directory with our mark in it, in place of an earlier one that has it."""
    marker = directory / MARKER
    if marker.is_file():
        shutil.rmtree(directory)
    elif directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        message = (
            f"cannot make a demo lake in {str(directory)!r}: something else is there; name another with --directory"
        )
        raise DemoError(message)
    directory.mkdir(parents=True, exist_ok=True)
    marker.touch()


def stream(lake: Lake, demo: Demo) -> None:
    """Append one large batch, which becomes a Parquet file, then the small ones, which become rows in the catalog."""
    fleet = Fleet()
    for rows in (BACKLOG_ROWS, *[demo.rows_per_batch] * demo.batches):
        readings = fleet.send(rows)
        start = time.perf_counter()
        snapshot = lake.append(TABLE, readings)
        milliseconds = (time.perf_counter() - start) * 1000
        snapshot_id = snapshot.snapshot_id if snapshot else "none"
        print(f"  {rows:>6,} rows  ->  snapshot {snapshot_id:<4} {milliseconds:6.1f} ms")


def show_catalog(lake: Lake) -> None:
    snapshots = lake.snapshots()
    print("\nIn the catalog now:")
    print(f"  snapshots     {len(snapshots)}, the newest is {snapshots[-1].snapshot_id}")
    for table in lake.tables():
        show_table(table)


def show_table(table: Table) -> None:
    files = table.files()
    rows, rows_in_files = table.count(), sum(file.record_count for file in files)
    print(f"  table         {table.name}")
    print(f"  rows          {rows:,}")
    print(f"  inlined rows  {rows - rows_in_files:,} (stored in the catalog; nothing has been flushed)")
    print(f"  files         {len(files)} with {rows_in_files:,} rows")


def show_how_to_open(demo: Demo) -> None:
    print("\nTo open it, start `duckdb` and paste:\n")
    for statement in statements_to_open(demo):
        print(f"  {statement}")


def statements_to_open(demo: Demo) -> list[str]:
    path = str(demo.catalog).replace("'", "''")
    return [
        "INSTALL ducklake; INSTALL sqlite;",
        f"ATTACH 'ducklake:sqlite:{path}' AS lake;",
        "SELECT vehicle, count(*), max(speed_kmh) FROM lake.readings GROUP BY ALL ORDER BY ALL;",
        "FROM lake.snapshots();",
    ]
