"""A Kafka broker of one's own, for the demonstration and for tests. Runs where it is called; no Spark.

It is broker and controller in one (KRaft), listens on the loopback only, never runs as root and ends with this process,
however that one ends: a shell waits on a pipe from us and ends the broker when nobody holds the other end.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_streaming.demo.local_postgres import HOST, UNPRIVILEGED, as_server_user, free_port, make_directory
from ducklake_streaming.demo.maven import KAFKA_BROKER, fetch_files

PATIENCE_SECONDS = 150.0  # far more than anything takes on a quiet machine
STEP_SECONDS = 0.05
CLUSTER_ID = "bHqWl0k5Qd6Yt0c0q1vKzA"  # any 16 bytes in base64
# A heap of half of what it may take, and compiled in a hurry: it lives for minutes.
JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxMetaspaceSize=128m")
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    # One broker holds every copy.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # The default buffer alone is 128 MB of heap.
    "log.cleaner.dedupe.buffer.size": "2097152",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
}
# It ends the broker by the signal that it is told. Told nothing, we have died: the files go, too, unless $1 is keep.
_SUPERVISOR = """
remove=$1; directory=$2; shift 2; "$@" & broker=$!; echo "$broker" >"$directory/pid"
if read -r signal; then kill "-$signal" "$broker"; wait "$broker"
else kill -KILL "$broker"; wait "$broker"; test "$remove" = keep || rm -rf "$directory"; fi
"""


DeliveryCallback: TypeAlias = Callable[[KafkaError | None, Message], None]


class BrokerError(Exception):
    """The broker cannot be started, or did not take what it was told; the message has what it said."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is written to a topic."""

    partition: int
    value: bytes | None
    key: bytes | None = None


class Kafka:
    """A broker that can be stopped, killed and started again, on the same port with the same records.

    `directory` is one of `make_directory`. With `keep` it stays when this process ends by force.
    """

    def __init__(
        self, directory: Path, jars: Sequence[Path], *, keep: bool = False, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.directory = directory
        self.port = free_port()
        self._java = [str(_find_java()), *JVM, "-cp", str(_gather(jars, directory / "jars") / "*")]
        self._settings = directory / "server.properties"
        self._log = directory / "log"
        self._keep = "keep" if keep else "remove"
        self._clock = clock
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)

    @property
    def servers(self) -> str:
        """What clients call `bootstrap.servers`."""
        return f"{HOST}:{self.port}"

    @property
    def process_id(self) -> int:
        return int((self.directory / "pid").read_text())

    @property
    def command(self) -> list[str]:
        """What runs the broker."""
        return [*self._java, "kafka.Kafka", str(self._settings)]

    @property
    def shell_command(self) -> str:
        """The same for people; its files belong to a user who is not root."""
        return ("runuser -u nobody -- " if os.geteuid() == 0 else "") + shlex.join(self.command)

    # ---- topics and records

    def create_topic(self, partitions: int = 1, name: str | None = None) -> str:
        """Make a topic and return its name, which no other has unless it was chosen."""
        name = name or f"topic{next(self._numbers)}"
        admin = self._admin()
        admin.create_topics([NewTopic(name, partitions)])[name].result(PATIENCE_SECONDS)
        return name

    def produce(self, topic: str, records: Iterable[Record]) -> None:
        """Write records and return when the broker has them; those of a partition keep their order."""
        failed: list[object] = []
        producer = Producer({**self._client, "enable.idempotence": True})

        def told(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        for record in records:
            _produce(producer, topic, record, told)
        if producer.flush(PATIENCE_SECONDS) or failed:
            raise BrokerError(f"topic {topic!r} did not take every record: {failed or 'no answer'}")

    def ends(self, topic: str) -> dict[int, int]:
        """Return the offset after the last record of each partition."""
        consumer = Consumer({**self._client, "group.id": "ends"})
        try:
            partitions = consumer.list_topics(topic, PATIENCE_SECONDS).topics[topic].partitions
            places = [TopicPartition(topic, partition) for partition in partitions]
            return {place.partition: _end(consumer, place) for place in places}
        finally:
            consumer.close()

    # ---- its life

    def format(self) -> None:
        """Make its files; once, before the first start."""
        self._settings.write_text(
            "".join(f"{name}={value}\n" for name, value in {**SETTINGS, **self._places()}.items())
        )
        self._settings.chmod(0o644)
        command = [*self._java, "kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID]
        command += ["-c", str(self._settings)]
        made = subprocess.run(  # noqa: S603 # a fixed list
            command, check=False, capture_output=True, text=True, cwd=self.directory, env={}, **as_server_user()
        )
        if made.returncode != 0:
            raise BrokerError(f"the broker's files cannot be made: {made.stdout}{made.stderr}")

    def start(self) -> None:
        """Start it and wait until it answers."""
        arguments = ["/bin/sh", "-c", _SUPERVISOR, "sh", self._keep, str(self.directory), *self.command]
        with self._log.open("ab") as log:
            self._supervisor = subprocess.Popen(  # noqa: S603 # a fixed list
                arguments,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env={"PATH": os.defpath},
                start_new_session=True,  # Ctrl-C is for us; the broker ends after us
                **as_server_user(),
            )
        self._wait_until_it_answers(self._supervisor)

    def stop(self) -> None:
        """Let it end in order."""
        self._end("TERM")

    def kill(self) -> None:
        """End it at once."""
        self._end("KILL")

    def restart(self) -> None:
        self.stop()
        self.start()

    def _places(self) -> dict[str, str]:
        controller = f"{HOST}:{free_port()}"
        listeners = f"PLAINTEXT://{self.servers},CONTROLLER://{controller}"
        return {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": controller,
            "log.dirs": str(self.directory / "data"),
        }

    def _end(self, signal: str) -> None:
        if self._supervisor is not None:
            self._supervisor.communicate(f"{signal}\n".encode())
            self._supervisor = None

    def _wait_until_it_answers(self, supervisor: subprocess.Popen[bytes]) -> None:
        deadline = self._clock.seconds() + PATIENCE_SECONDS
        while not self._answers():
            if supervisor.poll() is not None or self._clock.seconds() > deadline:
                raise BrokerError(f"the broker did not start: {self._log.read_text()}")
            self._clock.sleep(STEP_SECONDS)

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), timeout=5).close()
            return bool(self._admin().list_topics(timeout=5).brokers)
        except (OSError, KafkaException):
            return False

    @property
    def _client(self) -> dict[str, str | int | float | bool]:
        return {"bootstrap.servers": self.servers, "log_level": 0}  # a broker that is not up yet is no news

    def _admin(self) -> AdminClient:
        """Give a client, which must be kept until its answer is there: what is asked ends with it."""
        return AdminClient(self._client)


@contextmanager
def run_kafka() -> Iterator[Kafka]:
    """Run a broker in a temporary directory, and end it with the block. Raises FetchError without its jars."""
    jars = fetch_files(KAFKA_BROKER)
    directory = make_directory(prefix="kafka-")
    try:
        with running(Kafka(directory, jars)) as broker:
            yield broker
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def running(broker: Kafka) -> Iterator[Kafka]:
    """Run a new broker, and end it with the block."""
    broker.format()
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def _produce(producer: Producer, topic: str, record: Record, told: DeliveryCallback) -> None:
    while True:
        try:
            producer.produce(topic, record.value, record.key, record.partition, on_delivery=told)
        except BufferError:  # its queue is full of what the broker has not taken yet
            producer.poll(STEP_SECONDS)
        else:
            return


def _end(consumer: Consumer, place: TopicPartition) -> int:
    found = consumer.get_watermark_offsets(place, PATIENCE_SECONDS)
    if found is None:
        raise BrokerError(f"the broker does not tell the end of {place.topic!r}, partition {place.partition}")
    return int(found[1])


def _find_java() -> Path:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home) / "bin" / "java" if home else "java")
    if java is None:
        raise BrokerError("no Java was found: a broker needs 17 or newer, in JAVA_HOME or on the path")
    return Path(java)


def _gather(jars: Sequence[Path], folder: Path) -> Path:
    """Put the jars into a folder where the broker's user can read them: the cache may be in root's home."""
    folder.mkdir()
    if os.geteuid() == 0:
        shutil.chown(folder, UNPRIVILEGED)  # so that the supervisor can remove it
    for jar in jars:
        _link(jar, folder / jar.name)
    return folder


def _link(jar: Path, link: Path) -> None:
    try:
        link.hardlink_to(jar)
    except OSError:  # another file system
        shutil.copy(jar, link)
