"""Runs the demonstration with Kafka: a broker, orders, a job that is killed in the middle, and the sums. No Spark here.

The job is a child process, as in real life; this one produces records, looks into the lake and shows what it finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_streaming.demo.display import how_to_open, where_to_watch
from ducklake_streaming.demo.job_process import JobProcess
from ducklake_streaming.demo.kafka_job import DEAD_LETTERS, TABLE, LakeReader, Numbers, Sums, write_job
from ducklake_streaming.demo.local_kafka import BrokerError, Kafka, running
from ducklake_streaming.demo.local_postgres import free_port
from ducklake_streaming.demo.maven import KAFKA_BROKER, KAFKA_CONNECTOR, FetchError, fetch_files
from ducklake_streaming.demo.orders import BROKEN_EVERY, PARTITIONS, TOPICS, OrderProducer, make_order, place_orders
from ducklake_streaming.demo.workspace import KAFKA, WORKSPACES, DemoError, Workspace, server_directory
from ducklake_streaming.java import require_java

PATIENCE_SECONDS = 240.0  # without anything new in the lake, something is wrong
BAR_WIDTH = 24
BACKLOG = 10_000
PER_SECOND = 200
PICTURE = """
    topic orders   ──┐                          ┌──▶ main.orders         good records
                     ├──▶ the job, a TOML file ─┤
    topic payments ──┘                          └──▶ main.dead_letters   broken ones, with their bytes and the reason
"""
HEADER = f"{'second':>8}{'produced':>12}{'in the table':>14}{'dead letters':>14}{'snapshots':>11}   in the lake"


@dataclass(frozen=True, slots=True)
class KafkaDemo:
    """Where the lake goes, what its catalog is, and how much is produced: at first, and for so many seconds."""

    directory: Path
    catalog: str
    seconds: int
    backlog: int = BACKLOG
    per_second: int = PER_SECOND


def run_kafka_demo(demo: KafkaDemo, show: Callable[[str], None]) -> None:
    """Make the lake anew, stream into it and show what happens. Raises DemoError, or InvalidInput without Java."""
    require_java()
    try:
        with WORKSPACES[demo.catalog](demo.directory) as workspace, _broker(workspace, show) as broker:
            _Show(demo, workspace, broker, show).run()
            after = list(_what_next(demo.directory, workspace, broker))
    except (FetchError, BrokerError) as error:
        raise DemoError(str(error)) from error
    for line in after:
        show(line)


class _Show:
    """One run, with all that it needs."""

    def __init__(
        self,
        demo: KafkaDemo,
        workspace: Workspace,
        broker: Kafka,
        show: Callable[[str], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._demo = demo
        self._broker = broker
        self._show = show
        self._clock = clock
        self._start = clock.seconds()
        self._log = workspace.directory / "job.log"
        self._port = free_port()
        jars = fetch_files(KAFKA_CONNECTOR)
        self._file = write_job(workspace.directory, workspace.catalog, broker.servers, jars, self._port)
        self._producer = OrderProducer(broker, clock)
        self._view = LakeReader(workspace.catalog)
        self._shown = Numbers()

    def run(self) -> None:
        """Show all of it, and check the sums."""
        with ExitStack() as stack:
            stack.callback(self._view.close)
            self._produce()
            stack.callback(self._producer.stop)
            self._run_and_kill()
            self._run_to_the_end()
        self._show_sums()

    def _produce(self) -> None:
        for topic in TOPICS:
            self._broker.create_topic(PARTITIONS, topic)
        self._show(PICTURE)
        self._producer.produce(self._demo.backlog)
        self._show(
            f"{self._demo.backlog:,} orders and payments are in the topics, and {self._demo.per_second} more come each "
            f"second. One of {BROKEN_EVERY} is broken."
        )

    def _run_and_kill(self) -> None:
        self._show(where_to_watch(f"http://127.0.0.1:{self._port}/"))
        self._show(f"\n  $ ducklake-stream run {self._demo.directory}/{self._file.name}\n\n{HEADER}")
        with self._job() as job:
            self._wait_for_more(job)
            self._producer.start(self._demo.per_second, 2 * self._demo.per_second * self._demo.seconds)
            self._watch(job, self._demo.seconds / 2)
            job.kill()
        self._look()
        self._show("          kill -9: the job and its Spark are gone, in the middle of whatever they did")

    def _run_to_the_end(self) -> None:
        self._show(f"\n  $ ducklake-stream run {self._demo.directory}/{self._file.name}\n")
        with self._job() as job:
            self._wait_for_more(job)
            self._watch(job, self._demo.seconds / 2)
            self._producer.stop()
            self._show("          no more orders come")
            self._wait(job, lambda found: found.records >= self._producer.produced)
            code = job.stop()
        self._show(f"          SIGTERM: the job ends after its batch, with exit code {code}")
        if code != 0:
            raise DemoError(f"the job ended with exit code {code}; its log is {str(self._log)!r}")

    # ---- watching

    @contextmanager
    def _job(self) -> Iterator[JobProcess]:
        job = JobProcess(self._file, self._log)
        try:
            yield job
        finally:
            job.close()

    def _wait_for_more(self, job: JobProcess) -> None:
        before = self._shown.records
        self._wait(job, lambda found: before < found.records or found.records == self._producer.produced)

    def _watch(self, job: JobProcess, seconds: float) -> None:
        end = self._clock.seconds() + seconds
        self._wait(job, lambda _: self._clock.seconds() >= end)

    def _wait(self, job: JobProcess, is_enough: Callable[[Numbers], bool]) -> None:
        """Show what is new each second until it is enough."""
        deadline = self._clock.seconds() + PATIENCE_SECONDS
        while not is_enough(self._look()):
            if job.exit_code is not None:
                raise DemoError(f"the job ended with exit code {job.exit_code}; its log is {str(self._log)!r}")
            if self._clock.seconds() > deadline:
                raise DemoError(f"nothing new came for {PATIENCE_SECONDS:.0f} s; the job's log is {str(self._log)!r}")
            self._clock.sleep(1)

    def _look(self) -> Numbers:
        found = self._view.numbers()
        if found.records != self._shown.records:
            self._show(_line(self._clock.seconds() - self._start, self._producer.produced, found))
        self._shown = found
        return found

    # ---- the end

    def _show_sums(self) -> None:
        orders = place_orders(map(make_order, range(self._producer.produced)))
        produced = {place: order.broken for place, order in orders.items()}
        reasons = self._view.reasons()
        sums = Sums(produced, self._view.places(TABLE), self._view.places(DEAD_LETTERS), reasons)
        self._view.close()
        for line in _told(sums):
            self._show(line)
        if problems := list(sums.problems()):
            raise DemoError(f"this must not happen: {'; '.join(problems)}")


def _line(seconds: float, produced: int, found: Numbers) -> str:
    filled = round(BAR_WIDTH * min(1.0, found.records / max(1, produced)))
    bar = "█" * filled + "░" * (BAR_WIDTH - filled)
    numbers = f"{produced:>12,}{found.rows:>14,}{found.dead_letters:>14,}{found.snapshots:>11,}"
    return f"{seconds:>8.0f}{numbers}   {bar}"


def _told(sums: Sums) -> Iterator[str]:
    yield "\nThe sums, by topic, partition and offset of each record in the lake:\n"
    yield f"  {len(sums.produced):>9,}  records were produced"
    yield f"  {len(sums.stored):>9,}  are in {TABLE}, each once"
    yield f"  {len(sums.dead):>9,}  are in {DEAD_LETTERS}, each once:"
    counts = Counter(broken for place in sums.dead if (broken := sums.produced.get(place)) is not None)
    for broken, count in counts.items():
        first = next(place for place in sums.dead if sums.produced.get(place) == broken)
        yield f"             {count:>5,}  {broken}: {sums.reasons[first]}"


@contextmanager
def _broker(workspace: Workspace, show: Callable[[str], None]) -> Iterator[Kafka]:
    jars = fetch_files(KAFKA_BROKER, show)
    fetch_files(KAFKA_CONNECTOR, show)
    show(f"Starting a Kafka broker; everything will be in {workspace.directory}/.")
    with running(Kafka(server_directory(workspace.directory, KAFKA), jars, keep=True)) as broker:
        yield broker


def _what_next(directory: Path, workspace: Workspace, broker: Kafka) -> Iterator[str]:
    yield f"""
What next: {directory}/job.toml is yours to change. The broker has been stopped; to run the job again, start it with

  {broker.shell_command}

and then, in another terminal:

  ducklake-stream check {directory}/job.toml
  ducklake-stream run {directory}/job.toml

Look at the lake with

  ducklake-stream status --catalog '{workspace.catalog}'
"""
    yield from how_to_open(workspace, "SELECT kind, count(*), sum(amount) FROM lake.orders GROUP BY ALL ORDER BY ALL;")
