"""How fast Spark reads and writes a lake beside Delta Lake and Iceberg: `make bench-peers ARGS="feed"`.

All arms take turns in one Spark 4.1, on the same rows, and are compared by their medians; first reads of a session have
processes of their own. Catalogs are SQLite files. No time is asserted; README.md has some.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.peers import cold, feed, read, sink, stream, upsert
from benchmarks.peers.session import open_session
from benchmarks.peers.tables import Column, Result, as_json, table, take_turns

Make = Callable[[SparkSession, Path, int], None]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    with tempfile.TemporaryDirectory() as directory:
        folder = (options.folder or Path(directory)).absolute()
        spark = open_session(folder)
        for what in options.what:
            results = GROUPS[what](spark, folder, options)
            shown = [as_json(results)] if options.json else [f"{one.title}:\n\n{table(one)}\n" for one in results]
            print("\n".join(shown), flush=True)
        spark.stop()


def measure_feed(spark: SparkSession, folder: Path, options: argparse.Namespace) -> list[Result]:
    rows = _rows(options, feed.ROWS, feed.QUICK_ROWS)
    place = _prepared(spark, folder / "feed", rows, feed.make)
    arms = [name for name in feed.ARMS if options.iceberg or name != "Iceberg"]
    if options.iceberg:
        _prepared(spark, folder / "feed_iceberg", rows, feed.make_iceberg)
    if options.prepare:
        feed.check(spark, place, rows, arms)
        return []
    return [_measure_reads(spark, place, "feed", feed.ARMS, arms, options)]


def measure_stream(spark: SparkSession, folder: Path, options: argparse.Namespace) -> list[Result]:
    place = _prepared(spark, folder / "feed", _rows(options, feed.ROWS, feed.QUICK_ROWS), feed.make)
    return [] if options.prepare else [_measure_reads(spark, place, "stream", stream.ARMS, list(stream.ARMS), options)]


def measure_read(spark: SparkSession, folder: Path, options: argparse.Namespace) -> list[Result]:
    rows = _rows(options, read.ROWS, read.QUICK_ROWS)
    place = _prepared(spark, folder / "read", rows, read.make)
    if options.prepare:
        read.check(spark, place, rows)
        return []
    return read.measure(spark, place, rows, options.rounds)


def measure_sink(spark: SparkSession, folder: Path, options: argparse.Namespace) -> list[Result]:
    place = folder / "sink"
    shutil.rmtree(place, ignore_errors=True)
    if options.prepare:
        return []
    return [sink.measure(spark, place, _rows(options, sink.ROWS, sink.QUICK_ROWS), options.rounds)]


def measure_upsert(spark: SparkSession, folder: Path, options: argparse.Namespace) -> list[Result]:
    rows = _rows(options, upsert.ROWS, upsert.QUICK_ROWS)
    place = _prepared(spark, folder / "upsert", rows, upsert.make)
    return [] if options.prepare else [upsert.measure(spark, place, rows, options.rounds)]


def _measure_reads(
    spark: SparkSession,
    place: Path,
    module: str,
    arms: Mapping[str, feed.Arm],
    chosen: Sequence[str],
    options: argparse.Namespace,
) -> Result:
    """Measure first reads in processes of their own, then reads in turns in this session, of which one warms up."""
    columns = []
    if options.cold_rounds:
        columns.append(Column("first", cold.measure(module, chosen, place.parent, options.cold_rounds)))
    turns = {name: partial(arms[name], spark, place) for name in chosen}
    take_turns(turns, 1)
    columns.append(Column("warm", take_turns(turns, options.rounds)))
    return Result(f"{module}: changes of {feed.COMMITS} commits", columns, ["Delta"])


def _prepared(spark: SparkSession, place: Path, rows: int, make: Make) -> Path:
    """Return a place with its tables, which are made if they are not there, half made or of another size."""
    made = place / "made"
    if not made.is_file() or made.read_text() != str(rows):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        make(spark, place, rows)
        made.write_text(str(rows))
    return place


def _rows(options: argparse.Namespace, full: int, quick: int) -> int:
    return int(options.rows or (quick if options.quick else full))


GROUPS: Mapping[str, Callable[[SparkSession, Path, argparse.Namespace], list[Result]]] = {
    "feed": measure_feed,
    "stream": measure_stream,
    "read": measure_read,
    "sink": measure_sink,
    "upsert": measure_upsert,
}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__)
    parser.add_argument("what", nargs="+", choices=list(GROUPS))
    parser.add_argument("--quick", action="store_true", help="few rows: to see that it runs")
    parser.add_argument("--rows", type=int, help="of the table, or of a batch of the sink")
    parser.add_argument("--rounds", type=int, default=5, help="that count (default: %(default)s)")
    parser.add_argument("--cold-rounds", type=int, default=3, help="sessions for first reads (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="keep the tables here, for the next run")
    parser.add_argument("--prepare", action="store_true", help="only make the tables and check that all read the same")
    parser.add_argument("--iceberg", action="store_true", help="with Iceberg's changelog view, which takes a minute")
    parser.add_argument("--json", action="store_true", help="print all seconds as JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
