"""How long expiry of many snapshots takes: ours, and the DuckDB extension's.

Run as `python -m benchmarks.expiry`. Both expire the same snapshots, all but the newest, in lakes of the same life, on
SQLite and on PostgreSQL, and take turns; medians are compared. Half of the snapshots insert a file, half delete it. No
time is asserted: README.md has some.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sqlalchemy import Table, insert

from benchmarks.contenders import Place, Places
from ducklake_core import Lake
from ducklake_core.catalog.session import Session, Statement
from tests.fixtures.oracle import Oracle
from tests.fixtures.postgres import run_postgres


@dataclass(frozen=True, slots=True)
class Expiries:
    """The median seconds of each contender's expiry of so many snapshots."""

    catalog: str
    snapshots: int
    ours_seconds: float
    extension_seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snapshots", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    print(f"{'catalog':<12}{'snapshots':>10}{'ours':>10}{'extension':>12}{'ratio':>8}")
    for found in measure(options.snapshots, options.rounds):
        ratio = found.extension_seconds / found.ours_seconds
        times = f"{found.ours_seconds:>9.3f}s{found.extension_seconds:>11.3f}s"
        print(f"{found.catalog:<12}{found.snapshots:>10}{times}{ratio:>7.1f}×")


def measure(snapshots: int, rounds: int) -> list[Expiries]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(run_postgres())
        return [
            _measure("sqlite", Places(directory, None), snapshots, rounds),
            _measure("postgres", Places(directory, server), snapshots, rounds),
        ]


def _measure(catalog: str, places: Places, snapshots: int, rounds: int) -> Expiries:
    ours, extensions = [], []
    for _ in range(rounds):
        ours.append(_ours(places.make(), snapshots))
        extensions.append(_extension(places.make(), snapshots))
    return Expiries(catalog, snapshots, median(ours), median(extensions))


def _ours(place: Place, snapshots: int) -> float:
    with Lake.create(place.url, place.data_path) as lake:
        _live(lake, snapshots)
        lake.snapshots(limit=1)  # connects
        start = time.perf_counter()
        report = lake.expire_snapshots(keep_last=1)
        seconds = time.perf_counter() - start
        _check(lake, snapshots, report.total.snapshots)
    return seconds


def _extension(place: Place, snapshots: int) -> float:
    with Lake.create(place.url, place.data_path) as lake:
        _live(lake, snapshots)
        lake.close()
        with Oracle() as oracle:
            oracle.attach(place.attach)
            oracle.query("SELECT count(*) FROM sensors")
            start = time.perf_counter()
            oracle.execute("CALL ducklake_expire_snapshots('lake', older_than => now() + INTERVAL 1 DAY)")
            seconds = time.perf_counter() - start
        _check(lake, snapshots, snapshots)
    return seconds


def _check(lake: Lake, snapshots: int, expired: int) -> None:
    if expired != snapshots or len(lake.snapshots()) != 1:
        raise AssertionError(f"{expired} snapshots expired instead of {snapshots}")


def _live(lake: Lake, snapshots: int) -> None:
    """Give a lake so many snapshots before its newest, straight in the catalog: files need not exist to expire."""
    lake.create_table("sensors", {"i": "int64", "value": "float64"})
    lake.append("sensors", {"i": range(20), "value": [0.5] * 20})
    head = lake.snapshots()[-1]
    first, last = head.snapshot_id + 1, snapshots

    def write(session: Session) -> None:
        t, count = session.tables, range(first, last + 1)
        counters: dict[str, object] = {"schema_version": head.schema_version, "snapshot_time": lake.clock.now()}
        counters |= {"next_catalog_id": head.next_catalog_id}
        rows: dict[Table, list[dict[str, object]]] = {
            t.ducklake_snapshot: [{**counters, "snapshot_id": i, "next_file_id": i + 1} for i in count],
            t.ducklake_snapshot_changes: [{"snapshot_id": i, "changes_made": _changes(i)} for i in count],
            t.ducklake_data_file: [_file(i, i + 1 if i < last else None) for i in count if i % 2 == first % 2],
            t.ducklake_file_column_stats: [_stats(i, column) for i in count if i % 2 == first % 2 for column in (1, 2)],
        }
        session.write_and_commit([Statement(insert(table), _filled(table, some)) for table, some in rows.items()])

    lake.database.write_alone("fill", write)


def _filled(table: Table, rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return rows with every column of the table, NULL where they have none."""
    nothing = dict.fromkeys(table.columns.keys())
    return [{**nothing, **row} for row in rows]


def _changes(snapshot: int) -> str:
    return "inserted_into_table:1" if snapshot % 2 else "deleted_from_table:1"


def _file(begin: int, end: int | None) -> dict[str, object]:
    name = f"ducklake-{begin:08}.parquet"
    size = {"record_count": 100, "file_size_bytes": 1000, "footer_size": 300, "row_id_start": 100 * begin}
    place = {"path": name, "path_is_relative": True, "file_format": "parquet"}
    return {"data_file_id": begin, "table_id": 1, "begin_snapshot": begin, "end_snapshot": end, **place, **size}


def _stats(file: int, column: int) -> dict[str, object]:
    bounds = {"min_value": "0", "max_value": "99", "value_count": 100, "null_count": 0}
    return {"data_file_id": file, "table_id": 1, "column_id": column, **bounds}


if __name__ == "__main__":
    main()
