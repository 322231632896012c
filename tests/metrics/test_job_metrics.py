"""A job with [metrics], as a user runs it: its numbers while it runs, with bad records, and after a pipeline fails."""

import json
import signal
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ducklake_core import Lake
from ducklake_streaming.metrics import declared as m
from tests.fixtures.browser import Tab
from tests.fixtures.jobs import JobFolder, JobProcess
from tests.fixtures.kafka import Kafka, Record

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PASSWORD = "s3cret-of-a-job"  # noqa: S105 # a fake
GOOD, BAD, PARTITIONS = 30, 4, 2
# What this run cannot have: nothing is lost, and rows are appended.
ABSENT = {m.SINK_KAFKA_MISSING, m.SINK_UPSERT_ROWS, m.SINK_UPSERT_FILES}


class Scraper:
    """Asks the metrics of a job that runs."""

    def __init__(self, process: JobProcess) -> None:
        self.process = process
        process.wait_for_line("metrics_served url=")
        url = process.lines("metrics_served")[0].rpartition("url=")[2]
        self.place = urlsplit(url).netloc

    def ask(self, path: str) -> tuple[int, str]:
        connection = HTTPConnection(self.place, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()

    def scrape(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Return every series, as the client of Prometheus reads it."""
        families = text_string_to_metric_families(self.ask("/metrics")[1])
        return {(one.name, frozenset(one.labels.items())): one.value for of in families for one in of.samples}

    def value(self, metric: m.Metric, **labels: str) -> float | None:
        return self.scrape().get((metric.name, frozenset(labels.items())))

    def wait(self, condition: Callable[[], object]) -> None:
        self.process.wait_for(condition)


def test_metrics_of_a_job_tell_what_it_does_and_that_it_fails(kafka: Kafka, job_folder: JobFolder, tab: Tab) -> None:
    topic = kafka.create_topic(PARTITIONS)
    silver = {"kind": "ducklake", "table": "main.orders", "read_change_feed": True, "consumer_id": "silver"}
    kept = {"on_bad_row": "quarantine", "job": "${env:SECRET}"}
    orders = job_folder.kafka(kafka, topic, format="json", schema="id int NOT NULL")
    job_folder.write(
        {
            "orders": job_folder.pipeline("orders", orders, "300ms", **kept, flush={"age": "1s"}),
            "silver": job_folder.pipeline("silver", {**silver, "starting_version": "earliest"}, "300ms"),
        },
        metrics={"port": 0, "every": "1s"},
        maintenance={"every": "2s"},
        job={"on_failure": "continue"},
    )
    with Lake.create(job_folder.catalog, f"{job_folder.folder}/data/") as lake:
        lake.create_table("main.orders", {"id": "int32"})
    records = [Record(n % PARTITIONS, b'{"id": %d}' % n) for n in range(GOOD)]
    kafka.produce(topic, [*records, *(Record(0, b"\xff") for _ in range(BAD))])
    process = job_folder.start(SECRET=PASSWORD)
    scraper = Scraper(process)

    # It is alive while Spark starts, and ready after.
    assert scraper.ask("/livez") == (200, "ok\n")
    scraper.wait(lambda: scraper.ask("/readyz") == (200, "ok\n"))
    scraper.wait(lambda: scraper.value(m.SINK_ROWS, pipeline="silver", table="main.silver") == GOOD)
    _see_kafka(scraper, topic)
    _see_lake(scraper)
    _see_that_all_are_told(scraper)
    for path in ("/metrics", "/livez", "/nowhere", "/", "/facts.json"):
        assert PASSWORD not in scraper.ask(path)[1]

    # The ledger is set back: the next batch must fail, and the other pipeline goes on.
    with Lake.open(job_folder.catalog) as lake:
        lake.forget_stream("orders")
    kafka.produce(topic, [Record(0, b'{"id": 99}')])
    scraper.wait(lambda: scraper.value(m.SINK_FAILURES, pipeline="orders", cause="lost") == 1)
    scraper.wait(lambda: scraper.value(m.SINK_RUNNING, pipeline="orders") == 0)
    scraper.wait(lambda: (scraper.value(m.SINK_KAFKA_LAG, pipeline="orders", topic=topic, partition="0") or 0) >= 1)
    status, why = scraper.ask("/livez")
    assert (status, why.startswith("pipeline 'orders' has failed: ")) == (503, True)
    assert scraper.value(m.SINK_BATCHES, pipeline="orders", outcome="failed") == 1
    assert scraper.value(m.SINK_RUNNING, pipeline="silver") == 1
    _see_page(scraper, tab)

    process.signal(signal.SIGTERM)
    assert process.wait() == 3
    assert scraper.ask("/metrics")[0] == 0


def _see_kafka(scraper: Scraper, topic: str) -> None:
    """See what is known of the topic: rows, letters by cause, lag, and the age of records."""
    assert scraper.value(m.SINK_ROWS, pipeline="orders", table="main.orders") == GOOD
    scraper.wait(lambda: scraper.value(m.SINK_INPUT_ROWS, pipeline="orders") in (GOOD + BAD, 2 * (GOOD + BAD)))
    assert scraper.value(m.SINK_DEAD_LETTERS, pipeline="orders", cause="unreadable") == BAD
    labels = [{"pipeline": "orders", "topic": topic, "partition": str(partition)} for partition in range(PARTITIONS)]
    scraper.wait(lambda: [scraper.value(m.SINK_KAFKA_LAG, **one) for one in labels] == [0] * PARTITIONS)
    assert (scraper.value(m.SINK_EVENT_TIME_LAG, pipeline="orders") or 0) > 0
    assert scraper.value(m.SINK_TRIGGER, pipeline="orders") == 0.3


def _see_lake(scraper: Scraper) -> None:
    """See what was polled: tables, the consumer of the feed, maintenance; and the changes that the feed brought."""
    assert scraper.value(m.SOURCE_ROWS, pipeline="silver", cause="insert") == GOOD
    scraper.wait(lambda: scraper.value(m.TABLE_ROWS, table="main.silver") == GOOD)
    scraper.wait(lambda: scraper.value(m.TABLE_INLINED_ROWS, table="main.orders") == 0)
    assert scraper.value(m.SINK_FLUSHED_ROWS, table="main.orders") == GOOD
    scraper.wait(lambda: scraper.value(m.SOURCE_EXPIRY_MARGIN, consumer="silver") is not None)
    scraper.wait(lambda: scraper.value(m.MAINTENANCE_RUNS, operation="merge", outcome="done"))
    assert scraper.value(m.MAINTENANCE_EVERY) == 2
    assert scraper.value(m.CATALOG_UP) == 1


def _see_page(scraper: Scraper, tab: Tab) -> None:
    """See in a browser that one pipeline has failed and why, that the other runs, and what there is beside them."""
    tab.open(f"http://{scraper.place}/")
    states = "[...document.querySelectorAll('article > header')].map(one => one.innerText).sort().join('; ')"
    errors = "[...document.querySelectorAll('article .notice.bad')].map(one => one.innerText).join('; ')"
    assert tab.evaluate(states) == "orders\nfailed; silver\nrunning"
    assert "the ledger" in tab.evaluate(errors)
    for words in ("records behind Kafka", "the value is no UTF-8", "main.silver", "merge", "batch_failed"):
        assert words in tab.text
    flushes = json.loads(scraper.ask("/facts.json")[1])["rows"]["flush"]
    assert sum(one["rows"] for one in flushes if one["table"] == "main.orders") == GOOD  # each was heard once
    assert (tab.dialogs, tab.errors) == ([], [])


def _see_that_all_are_told(scraper: Scraper) -> None:
    """See that each metric has a series, but those of what has not happened."""
    told = {name for name, _ in scraper.scrape()}
    names = {metric: {metric.name, f"{metric.name}_count"} for metric in m.METRICS}
    missing = {metric for metric, of in names.items() if not of & told}
    assert missing == ABSENT
    assert {"process_cpu_seconds_total", "python_info"} <= told
