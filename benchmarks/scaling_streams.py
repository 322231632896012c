"""Many streams that commit ten rows each, again and again, into one lake: in processes and threads of their own.

`python -m benchmarks.scaling_streams --streams 16 64 --trigger 1` lets each commit once a second, as a trigger does.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from pathlib import Path
from statistics import median, quantiles

from benchmarks.contenders import Place, Places, make_lake
from benchmarks.readings import SCHEMA, make_readings
from ducklake_core import Epoch, Lake, Transaction
from ducklake_core.observe import CommitRetried, Event
from tests.fixtures.postgres import run_postgres
from tests.fixtures.processes import CONTEXT, join, start

_PROCESSES = 4  # at most: Python has one interpreter in each
_ROWS = 10
# A commit is on the disk before it is acknowledged, as in production; what only a crash of the machine needs is off.
SERVER = {"full_page_writes": "off", "max_connections": "200", "shared_buffers": "512MB"}


@dataclass(frozen=True, slots=True)
class Found:
    """What some streams did together in `seconds`."""

    seconds: float
    commit_ms: Sequence[float]
    attempts: int

    @property
    def commits(self) -> int:
        return len(self.commit_ms)

    @property
    def per_second(self) -> float:
        return self.commits / self.seconds

    @property
    def median_ms(self) -> float:
        return median(self.commit_ms)

    @property
    def p99_ms(self) -> float:
        return quantiles(self.commit_ms, n=100, method="inclusive")[-1]


@dataclass(slots=True)
class Retries:
    """A recorder that counts commits which had to begin again."""

    count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def record(self, event: Event) -> None:
        if isinstance(event, CommitRetried):
            with self.lock:
                self.count += 1


def measure_commits(place: Place, streams: int, seconds: float, trigger: float = 0) -> Found:
    """Let so many streams commit for some seconds, each to a table of its own; return what they did.

    `trigger`: the seconds from one batch of a stream to its next; a commit's time is from when its batch was due.
    """
    with make_lake(place) as lake:
        for number in range(streams):
            lake.create_table(f"s{number}", SCHEMA)
    processes = min(streams, _PROCESSES)
    barrier, answers = CONTEXT.Barrier(processes), CONTEXT.Queue()
    numbers = [list(range(first, streams, processes)) for first in range(processes)]
    started = [start(commit_in_threads, place.url, some, seconds, trigger, barrier, answers) for some in numbers]
    found: list[tuple[list[float], int]] = [answers.get() for _ in started]
    assert not any(join(*started))
    times = [one for some, _ in found for one in some]
    return Found(seconds, times, len(times) + sum(retries for _, retries in found))


def commit_in_threads(
    url: str,
    streams: Sequence[int],
    seconds: float,
    trigger: float,
    barrier: threading.Barrier,
    answers: Queue[tuple[list[float], int]],
) -> None:
    """Run some streams in one process, each with a lake of its own."""
    retries, times, ready = Retries(), list[float](), threading.Barrier(len(streams) + 1)
    ends: list[float] = []

    def commit(number: int) -> None:
        readings, batch, table = make_readings(_ROWS), 0, f"s{number}"

        def write(tx: Transaction) -> None:
            tx.append(table, readings)

        with Lake.open(url, recorder=retries) as lake:
            lake.commit_epoch(Epoch(table, batch, "query", "run"), write)
            ready.wait()
            ready.wait()
            due = time.perf_counter() + trigger * random.random()  # noqa: S311 # no secret: triggers are not in step
            while due < ends[0]:
                time.sleep(max(0.0, due - time.perf_counter()))
                batch += 1
                lake.commit_epoch(Epoch(table, batch, "query", "run", continues_run=True), write)
                times.append(1000 * (time.perf_counter() - due))
                due = due + trigger if trigger else time.perf_counter()

    threads = [threading.Thread(target=commit, args=(number,)) for number in streams]
    for thread in threads:
        thread.start()
    ready.wait()
    retries.count = 0
    barrier.wait()
    ends.append(time.perf_counter() + seconds)
    ready.wait()
    for thread in threads:
        thread.join()
    answers.put((times, retries.count))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--streams", nargs="+", type=int, default=[16, 64], help="streams at once")
    parser.add_argument("--seconds", type=float, default=20, help="how long they commit")
    parser.add_argument("--trigger", type=float, default=1, help="seconds from one batch to the next; 0: without pause")
    options = parser.parse_args(arguments)
    with run_postgres(SERVER) as server, tempfile.TemporaryDirectory() as folder:
        for streams in options.streams:
            found = measure_commits(Places(Path(folder), server).make(), streams, options.seconds, options.trigger)
            attempts = found.attempts / max(1, found.commits)
            print(
                f"{streams} streams, a trigger of {options.trigger:g} s: {found.per_second:.1f} commits per second, "
                f"{attempts:.2f} attempts, median {found.median_ms:.0f} ms, 99 % {found.p99_ms:.0f} ms"
            )


if __name__ == "__main__":
    main()
