"""`ducklake-stream run job.toml` with a real broker: each record once, whatever dies, and the right exit code."""

import re
import shutil
import signal
from collections.abc import Sequence

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.fixtures.jobs import JobFolder, JobProcess
from tests.fixtures.kafka import Kafka, Record
from tests.fixtures.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # each starts Spark several times

PARTITIONS = 2
# Spark's own clients wait for minutes; these give up, so that the query fails and has to begin again.
HASTY = {
    "kafka.default.api.timeout.ms": "3000",
    "kafka.request.timeout.ms": "2000",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "100",
}

# Spark's own, where a batch took so long that a Python process had nothing to do for a minute.
OF_IDLE_WORKERS = re.compile(
    r'(?:Traceback .*\n)+(?:(?:  File "[^"]*/pyspark/daemon\.py".*|BrokenPipeError.*)\n)+'  # several at once mingle
)


class Topic:
    """A topic of a broker, and how many records it got."""

    def __init__(self, kafka: Kafka, name: str | None = None) -> None:
        self.kafka = kafka
        self.name = kafka.create_topic(PARTITIONS, name)
        self.records = 0

    def produce(self, records: int) -> None:
        numbers = range(self.records, self.records + records)
        self.kafka.produce(self.name, [Record(number % PARTITIONS, b"%d" % number) for number in numbers])
        self.records += records

    def places(self, *, without: Sequence[tuple[int, int]] = ()) -> list[tuple[int, int]]:
        """Return partition and offset of each record."""
        places = {(number % PARTITIONS, number // PARTITIONS) for number in range(self.records)}
        return sorted(places - set(without))


def has_all(folder: JobFolder, table: str, topic: Topic) -> bool:
    return folder.rows(table, "partition", "offset") == topic.places()


def assert_no_stacks(process: JobProcess) -> None:
    """See that the log is lines, whatever has failed: neither Python's tracebacks nor Java's."""
    log = OF_IDLE_WORKERS.sub("", process.log)
    assert "Traceback" not in log, log[-5000:]
    assert "\tat " not in log, log[-5000:]


def test_each_record_is_in_the_lake_once_though_the_job_dies_and_the_broker_restarts(
    kafka: Kafka, job_folder: JobFolder
) -> None:
    hasty, patient = Topic(kafka), Topic(kafka)
    options = {"max_records_per_trigger": 8}
    job_folder.write(
        {
            "hasty": job_folder.pipeline(
                "hasty", job_folder.kafka(kafka, hasty.name, **options, options=HASTY), "200ms"
            ),
            "patient": job_folder.pipeline("patient", job_folder.kafka(kafka, patient.name, **options), "200ms"),
        }
    )
    for topic in (hasty, patient):
        topic.produce(50)

    killed = job_folder.start()
    killed.wait_for_line("batch_committed", "stream=hasty batch=1")
    killed.kill()  # Spark's JVM ends with it
    job = job_folder.start()
    job.wait_for(lambda: has_all(job_folder, "hasty", hasty) and has_all(job_folder, "patient", patient))
    kafka.stop()
    try:
        job.wait_for_line("broker_unavailable", "stream=patient")
        job.wait_for_line("pipeline_restarted", "pipeline=hasty")
    finally:
        kafka.start()
    for topic in (hasty, patient):
        topic.produce(30)
    job.wait_for(lambda: has_all(job_folder, "hasty", hasty) and has_all(job_folder, "patient", patient))
    job.wait_for_line("broker_available", "stream=hasty")
    job.signal(signal.SIGTERM)

    assert job.wait() == 0, job.log[-5000:]
    assert job.lines("job_stopping reason=SIGTERM")
    assert job.lines("job_ended exit_code=0")
    assert not job.lines("batch_failed")
    assert_no_stacks(job)
    assert has_all(job_folder, "hasty", hasty)
    assert has_all(job_folder, "patient", patient)


def test_records_that_are_gone_before_they_were_read_end_the_job_or_are_counted(
    kafka: Kafka, job_folder: JobFolder
) -> None:
    topic = Topic(kafka)

    def write(**more: object) -> None:
        source = job_folder.kafka(kafka, topic.name, max_records_per_trigger=6, **more)
        job_folder.write({"orders": job_folder.pipeline("orders", source)})

    write()
    topic.produce(20)
    first = job_folder.run()
    topic.produce(20)
    admin = AdminClient({"bootstrap.servers": kafka.servers, "log_level": 0})
    [deleted] = admin.delete_records([TopicPartition(topic.name, 0, 15)]).values()
    deleted.result()
    refused = job_folder.run()
    rows_then = len(job_folder.rows("orders", "offset"))
    write(fail_on_data_loss=False)
    counted = job_folder.run()

    assert (first.wait(), refused.wait(), counted.wait()) == (0, 3, 0), counted.log[-5000:]
    assert rows_then == 20
    assert refused.lines(
        "pipeline_failed pipeline=orders exit_code=3",
        f"topic '{topic.name}' partition 0: offset 10 is wanted, offsets 15 to 20 (exclusive) exist",
        "fail_on_data_loss = false",
    )
    assert_no_stacks(refused)
    missing = counted.lines("records_missing stream=orders", "partition=0")
    assert int(re.findall(r"records=(\d+)", missing[-1])[-1]) == 5  # the sum of all lines, if there were several
    lost = [(0, offset) for offset in range(10, 15)]
    assert job_folder.rows("orders", "partition", "offset") == topic.places(without=lost)
    _topic_made_again_is_told(kafka, job_folder, topic, admin)


def _topic_made_again_is_told(kafka: Kafka, job_folder: JobFolder, topic: Topic, admin: AdminClient) -> None:
    """See that a topic made again is told though it has more records than the old one: offsets alone do not show it."""
    admin.delete_topics([topic.name])[topic.name].result()
    wait_until(lambda: topic.name not in admin.list_topics(timeout=10).topics)
    again = Topic(kafka, topic.name)
    again.produce(60)
    job_folder.write({"orders": job_folder.pipeline("orders", job_folder.kafka(kafka, topic.name))})

    job = job_folder.run()

    assert job.wait() == 3
    assert job.lines("offset 20 is wanted, offsets 0 to 30 (exclusive) exist: the topic was deleted and made again")


def test_a_pipeline_that_fails_ends_the_others_only_where_it_is_told_to(kafka: Kafka, job_folder: JobFolder) -> None:
    topic = Topic(kafka)
    topic.produce(20)
    away = {**job_folder.kafka(kafka, topic.name), "servers": "127.0.0.1:1", "timeout": "2s"}
    missing = job_folder.pipeline("missing", job_folder.kafka(kafka, "no-such-topic"))
    good = job_folder.kafka(kafka, topic.name)

    job_folder.write(
        {
            "good": job_folder.pipeline("good", good),
            "missing": missing,
            "away": job_folder.pipeline("away", away),
            "numbers": job_folder.pipeline("numbers", {"kind": "ducklake", "table": "main.not_there"}),
        },
        job={"on_failure": "continue"},
    )
    going_on = job_folder.run()
    rows_then = job_folder.rows("good", "partition", "offset")
    job_folder.write({"good": job_folder.pipeline("good", good, "200ms"), "missing": missing})
    stopping = job_folder.run()

    assert (going_on.wait(), stopping.wait()) == (1, 1), going_on.log[-5000:]
    assert rows_then == topic.places()
    assert going_on.lines("pipeline_ended pipeline=good")
    assert going_on.lines("pipeline_failed pipeline=missing", "there is no topic 'no-such-topic'")
    assert going_on.lines("broker_unavailable stream=away")
    assert going_on.lines("pipeline_failed pipeline=away", "gave up after")
    assert going_on.lines("pipeline_failed pipeline=numbers")  # of a table, or of a lake, that is not there yet
    assert going_on.lines("job_ended exit_code=1 failed=")
    assert stopping.lines("job_stopping reason=missing")
    for job in (going_on, stopping):
        assert_no_stacks(job)


def test_a_run_whose_stream_another_has_taken_over_ends_with_its_own_code(kafka: Kafka, job_folder: JobFolder) -> None:
    topic = Topic(kafka)
    topic.produce(4)
    source = job_folder.kafka(kafka, topic.name, max_records_per_trigger=2)
    job_folder.write({"orders": job_folder.pipeline("orders", source, "200ms")})
    old = job_folder.start()
    old.wait_for(lambda: has_all(job_folder, "orders", topic))
    old.signal(signal.SIGSTOP)  # a machine that hangs

    shutil.copytree(job_folder.folder / "checkpoints", job_folder.folder / "copies")
    taking_over = {**job_folder.pipeline("orders", source), "checkpoint": f"{job_folder.folder}/copies/orders"}
    topic.produce(6)
    job_folder.write({"orders": taking_over})
    new = job_folder.run()
    old.signal(signal.SIGCONT)

    assert new.wait() == 0, new.log[-5000:]
    assert old.wait() == 4, old.log[-5000:]
    assert old.lines("pipeline_failed pipeline=orders exit_code=4")
    assert has_all(job_folder, "orders", topic)


def test_what_keeps_a_job_from_beginning_is_one_line(job_folder: JobFolder) -> None:
    away = {"url": "postgresql://lake@127.0.0.1:1/lake", "timeout": "1s"}
    rate = job_folder.pipeline("p", {"kind": "rate"})

    job_folder.write({"p": {**rate, "chekpoint": "x"}})
    mistaken = job_folder.run()
    job_folder.write({"p": rate}, spark={"settings": {"spark.executor.memory": "much"}})
    without_spark = job_folder.run()
    job_folder.write({"p": rate}, catalog=away)
    given_up = job_folder.run()
    job_folder.write({"p": rate}, catalog={**away, "timeout": "24h"})
    stopped = job_folder.start()
    stopped.wait_for_line("catalog_unavailable")
    stopped.signal(signal.SIGTERM)

    assert mistaken.wait() == 2
    assert mistaken.lines("pipeline.p", "'chekpoint'", "did you mean 'checkpoint'?")
    assert without_spark.wait() == 1
    assert without_spark.lines("ducklake-stream: Spark has not started")
    assert given_up.wait() == 1
    assert given_up.lines("ducklake-stream: ", "gave up after")
    assert stopped.wait() == 0, stopped.log
