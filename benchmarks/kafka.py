"""What a job adds to Spark's own reading and parsing of Kafka: `python -m benchmarks.kafka share|bad|sustain|formats`.

`share`: JSON of some 300 bytes and 20 columns, from a real broker into a lake on PostgreSQL. The batches of one query
take turns: parsed and thrown away (Spark's `noop`), which is the floor; decoded by the pipeline's decoder and thrown
away; and written by the pipeline. Our share of a batch is what the pipeline takes more than the floor, of the batch's
whole time. `bad`: good records, and others of which one in fifty is broken; their batches take turns. `sustain`: the
pipeline alone for minutes, and what a batch takes in each of them. `formats`: JSON, and Avro by a schema registry,
whose batches take turns. No time is asserted; README.md has some.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.kafka_events import (
    AVRO_SCHEMA,
    BROKEN_EVERY,
    PARTITIONS,
    SCHEMA,
    avro_records,
    json_records,
    some_broken,
)
from benchmarks.kafka_machine import JSON, Bench, Machine, fill, require_active, run_machine, wait_for
from ducklake_core.spec.quantities import parse_duration
from tests.fixtures.registry import run_registry

WARM_UP = {100: 40, 50_000: 4}  # batches of each turn, until the JVM has compiled what it runs
ROUNDS = {100: 60, 50_000: 8}
# Whose turn a batch is.
FLOOR, DECODED, OURS = TURNS = ("floor: read and parse", "read and decode strictly", "pipeline")
GOOD, BAD = "good records", "some broken"
PARSED = "_plainly_parsed"
SPARKS = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "commitOffsets")


def measure_share(machine: Machine, batch_records: int, rounds: int) -> dict[str, float]:
    """Return medians in milliseconds: of a batch, of the floor and of the pipeline in it, and of their phases."""
    warm_up = WARM_UP.get(batch_records, 10)
    topic = fill(machine.kafka, json_records(0, batch_records * len(TURNS) * (rounds + warm_up)))
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    with machine.bench(topic, batch_records) as bench:

        def take_turns(frame: DataFrame, batch_id: int) -> None:
            turn = TURNS[batch_id % len(TURNS)]
            seconds[turn].append(_timed(lambda: _take(turn, bench, frame, batch_id)))
            if turn != OURS:
                with bench.sink.transaction(batch_id, frame.sparkSession):
                    pass  # the ledger wants every batch of the query, this one without rows

        # What anybody must do with JSON of Kafka: part of the stream, as our decoder is. A turn computes what it uses.
        parsed = F.from_json(F.col("value").cast("string"), SCHEMA).alias(PARSED)
        query = replace(bench, frame=bench.frame.select("*", parsed)).start(take_turns)
        wait_for(query, lambda: len(seconds[OURS]) >= rounds + warm_up and not query.status["isTriggerActive"])
        progress = {one["batchId"]: one["durationMs"] for one in query.recentProgress if one["numInputRows"]}
        query.stop()
    bench.phases.check_rows(batch_records * len(seconds[OURS]))
    ours = [durations for batch_id, durations in progress.items() if TURNS[batch_id % len(TURNS)] == OURS][warm_up:]
    reports = [bench.phases.reports[batch_id] for batch_id in sorted(bench.phases.reports)][warm_up:]
    return {
        "batch": _median(one["triggerExecution"] for one in ours),
        **{turn: 1000 * _median(seconds[turn][warm_up:]) for turn in TURNS},
        **{f"spark: {name}": _median(one.get(name, 0) for one in ours) for name in SPARKS},
        **{f"sink: {name}": 1000 * _median(one.seconds.get(name, 0) for one in reports) for name in reports[0].seconds},
    }


def _take(turn: str, bench: Bench, frame: DataFrame, batch_id: int) -> None:
    if turn == OURS:
        bench.writer(frame, batch_id)
    elif turn == DECODED:
        _throw_away(frame.select("_decoded.*", "_error"))
    else:
        _throw_away(frame.select(f"{PARSED}.*"))


def _throw_away(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def our_share(found: Mapping[str, float]) -> float:
    """Return which part of a batch's time is neither Spark's reading and parsing nor its own overhead."""
    return (found[OURS] - found[FLOOR]) / found["batch"]


def measure_sustained(machine: Machine, batch_records: int, seconds: float) -> list[dict[str, float]]:
    """Return for each minute how many batches there were, and what they took."""
    topic = machine.kafka.create_topic(PARTITIONS)
    start = time.perf_counter()
    with machine.bench(topic, batch_records) as bench:

        def write(frame: DataFrame, batch_id: int) -> None:
            bench.writer(frame, batch_id)

        query, made = bench.start(write), 0
        while time.perf_counter() - start < seconds:
            require_active(query)
            if made - len(bench.phases.reports) * batch_records < 100 * batch_records:
                machine.kafka.produce(topic, json_records(made, 50 * batch_records))
                made += 50 * batch_records
            time.sleep(0.2)
        began = {one["batchId"]: one for one in query.recentProgress if one["numInputRows"] == batch_records}
        query.stop()
    first = min(_epoch_seconds(one["timestamp"]) for one in began.values())
    ends = [(_epoch_seconds(one["timestamp"]) - first, one["durationMs"]["triggerExecution"]) for one in began.values()]
    return list(_by_minute(ends))


def measure_bad(machine: Machine, batch_records: int, rounds: int) -> dict[str, float]:
    """Return what a pipeline takes for a batch, by the median in ms: of good records, and of some broken among them."""
    warm_up = WARM_UP.get(batch_records, 10)
    count = batch_records * (rounds + warm_up)
    records = {GOOD: json_records(0, count), BAD: some_broken(json_records(0, count))}
    with ExitStack() as stack:
        benches = {
            name: stack.enter_context(machine.bench(fill(machine.kafka, found), batch_records))
            for name, found in records.items()
        }
        turns = take_turns(benches, rounds + warm_up)
        benches[GOOD].phases.check_rows(count)
        benches[BAD].phases.check_rows(count - count // BROKEN_EVERY)
    return {name: 1000 * _median(seconds[warm_up:]) for name, seconds in turns.seconds.items()}


def measure_formats(machine: Machine, batch_records: int, rounds: int) -> dict[str, float]:
    """Return how many records a second a pipeline takes: of JSON, and of Avro by a registry. They take turns."""
    warm_up = WARM_UP.get(batch_records, 10)
    count = batch_records * (rounds + warm_up)
    with ExitStack() as stack:
        registry = stack.enter_context(run_registry())
        schema_id = registry.register("events", AVRO_SCHEMA)
        avro = f'format = "avro"\nregistry = "{registry.url}"\nregistry_options = {{ subject = "events" }}'
        formats = {"JSON": (JSON, json_records(0, count)), "Avro": (avro, avro_records(0, count, schema_id))}
        benches = {
            name: stack.enter_context(machine.bench(fill(machine.kafka, records), batch_records, record_format))
            for name, (record_format, records) in formats.items()
        }
        turns = take_turns(benches, rounds + warm_up)
        for bench in benches.values():
            bench.phases.check_rows(count)
    return {name: batch_records / _median(seconds[warm_up:]) for name, seconds in turns.seconds.items()}


class Turns:
    """Lets the batches of two queries run one after the other, and keeps how long each took."""

    def __init__(self, *names: str) -> None:
        self.seconds: dict[str, list[float]] = {name: [] for name in names}
        self._next = dict(zip(names, [*names[1:], names[0]], strict=True))
        self._open = {name: threading.Semaphore(int(name == names[0])) for name in names}

    def start(self, name: str, bench: Bench) -> StreamingQuery:
        def write(frame: DataFrame, batch_id: int) -> None:
            self._open[name].acquire()
            try:
                self.seconds[name].append(_timed(lambda: bench.writer(frame, batch_id)))
            finally:
                self._open[self._next[name]].release()

        return bench.start(write)


def take_turns(benches: Mapping[str, Bench], batches: int) -> Turns:
    """Run so many batches of each, in turns, to the end."""
    turns = Turns(*benches)
    queries = [turns.start(name, bench) for name, bench in benches.items()]
    for query in queries:
        wait_for(query, lambda: min(map(len, turns.seconds.values())) >= batches)
        query.stop()
    return turns


def _by_minute(batches: Sequence[tuple[float, float]]) -> Iterator[dict[str, float]]:
    minutes: defaultdict[int, list[float]] = defaultdict(list)
    for at, duration in batches:
        minutes[int(at // 60)].append(duration)
    for minute, durations in sorted(minutes.items()):
        slowest = sorted(durations)[int(0.99 * len(durations))]
        yield {"minute": minute + 1, "batches": len(durations), "median": _median(durations), "p99": slowest}


def _timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _median(values: Iterator[float] | Sequence[float]) -> float:
    return statistics.median(values)


def _epoch_seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _share(machine: Machine, options: argparse.Namespace) -> None:
    found = {
        size: measure_share(machine, size, options.rounds or ROUNDS.get(size, 10))
        for size in options.records or [100, 50_000]
    }
    if options.json:
        print(
            json.dumps({size: {**phases, "our share": our_share(phases)} for size, phases in found.items()}, indent=2)
        )
        return
    for size, phases in found.items():
        print(f"\n{size:,} records a batch, medians in ms")
        for name, value in phases.items():
            print(f"  {name:<24}{value:>9.1f}")
        print(f"  our share: {our_share(phases):.0%}; {size / phases['batch'] * 1000:,.0f} records/s")


def _bad(machine: Machine, options: argparse.Namespace) -> None:
    sizes = options.records or [1_200, 50_000]
    found = {size: measure_bad(machine, size, options.rounds or ROUNDS.get(size, 20)) for size in sizes}
    if options.json:
        print(json.dumps({size: {**one, "ratio": one[BAD] / one[GOOD]} for size, one in found.items()}, indent=2))
        return
    for size, one in found.items():
        print(
            f"{size:,} records a batch: good {one[GOOD]:.0f} ms, some broken {one[BAD]:.0f} ms, "
            f"ratio {one[BAD] / one[GOOD]:.2f}"
        )


def _sustain(machine: Machine, options: argparse.Namespace) -> None:
    [size] = options.records or [100]
    minutes = measure_sustained(machine, size, parse_duration(options.duration).total_seconds())
    whole = minutes[1:-1] or minutes  # without the one that warms up and the one that is cut off
    growth = whole[-1]["median"] / whole[0]["median"]
    if options.json:
        print(json.dumps({"minutes": minutes, "last ÷ first": growth}, indent=2))
        return
    print(f"{'minute':>8}{'batches':>10}{'median ms':>12}{'p99 ms':>10}")
    for one in minutes:
        print(f"{one['minute']:>8}{one['batches']:>10}{one['median']:>12.0f}{one['p99']:>10.0f}")
    print(f"last whole minute ÷ first whole minute: {growth:.2f}")


def _formats(machine: Machine, options: argparse.Namespace) -> None:
    [size] = options.records or [50_000]
    found = measure_formats(machine, size, options.rounds or ROUNDS.get(size, 10))
    ratio = found["Avro"] / found["JSON"]
    if options.json:
        print(json.dumps({**found, "Avro ÷ JSON": ratio}, indent=2))
        return
    for name, rate in found.items():
        print(f"{name}: {rate:,.0f} records/s")
    print(f"Avro ÷ JSON: {ratio:.2f}")


MEASURES: Mapping[str, Callable[[Machine, argparse.Namespace], None]] = {
    "share": _share,
    "bad": _bad,
    "sustain": _sustain,
    "formats": _formats,
}


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    with run_machine() as machine:
        MEASURES[options.what](machine, options)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-kafka", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("what", choices=list(MEASURES), nargs="?", default="share")
    parser.add_argument("--records", type=int, nargs="+", help="records of a batch (default: 100 and 50,000)")
    parser.add_argument("--rounds", type=int, help="batches that count, by each way")
    parser.add_argument("--duration", default="10m", help="of `sustain` (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
