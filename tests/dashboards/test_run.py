"""One real run with faults in it, watched by a real Prometheus: alerts are delivered, and every panel has data.

It is one test, because there is one run: everything in it takes Spark, Kafka, PostgreSQL, Prometheus and Alertmanager.
With `DASHBOARD_PICTURES` set to a folder, what the panels show is drawn there (`make dashboard-pictures`).
"""

import os
import time
from collections.abc import Iterator
from math import isfinite
from pathlib import Path

import pytest

from ducklake_streaming.jobs.events import PipelineStarted
from ducklake_streaming.metrics.exporter import Exporter
from ducklake_streaming.metrics.server import Address
from grafana.generator.boards import DASHBOARDS
from grafana.generator.draw import Results, draw
from grafana.generator.values import Dashboard
from tests.dashboards.faulty_run import FaultyRun, tell_what_a_run_cannot
from tests.fixtures.jobs import JobFolder
from tests.fixtures.kafka import Kafka
from tests.fixtures.postgres import run_restarting_postgres
from tests.fixtures.prometheus import Monitoring, Series, find_programs, run_monitoring

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

VARIABLES = {"$__rate_interval": "10s", "$instance": ".*", "$pipeline": ".*", "$table": ".*"}
# Nothing that a busy machine may cause: a run that begins slowly is late, and says so.
OF_FAULTS = {
    "DuckLakeBatchesFailing",
    "DuckLakeCatalogAway",
    "DuckLakeCommitUnknown",
    "DuckLakeDeadLetterFlood",
    "DuckLakeDeadLetters",
    "DuckLakeFenced",
    "DuckLakeFlushFailing",
    "DuckLakeRecordsLost",
    "DuckLakeStorageRefuses",
}


@pytest.fixture
def run(job_folder: JobFolder, kafka: Kafka) -> Iterator[FaultyRun]:
    find_programs()  # without Prometheus, nothing of this is needed
    with run_restarting_postgres() as server:
        yield FaultyRun(job_folder, kafka, server)


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """Give an exporter of this process, scraped like the job's."""
    with Exporter(Address(port=0)) as made:
        yield made.start()


def test_faults_of_a_run_are_told_by_alerts_and_every_panel_has_data(run: FaultyRun, exporter: Exporter) -> None:
    own_port = int(exporter.url.rstrip("/").rpartition(":")[2])
    recorder = exporter.pipeline_recorder("elsewhere", 1.0)
    recorder.record(PipelineStarted("elsewhere"))

    with run_monitoring({"ducklake": [run.port, own_port]}) as monitoring:
        monitoring.wait_for("ducklake_sink_running == 1")
        start = time.time()
        go_well(run, monitoring)
        poison_floods(run, monitoring)
        consumer_is_stuck(monitoring)
        second_driver_takes_over(run, monitoring)
        storage_refuses(run, monitoring)
        catalog_goes_away(run, monitoring)
        tell_what_a_run_cannot(recorder)
        monitoring.wait_for_alert("DuckLakeRecordsLost")
        monitoring.wait_for_alert("DuckLakeCommitUnknown")

        end = time.time()
        assert [panel for board in DASHBOARDS for panel in empty_panels(board, monitoring, start, end)] == []

        run.end()
        monitoring.wait_for_alert("DuckLakeTargetDown", instance=f"127.0.0.1:{run.port}")


def go_well(run: FaultyRun, monitoring: Monitoring) -> None:
    run.feed(40)
    run.wait_for_rows("orders", 40)
    run.delete_some()
    run.feed(10)
    run.wait_for_rows("bulk", 50)
    run.wait_for_rows("copy", 49)  # as orders: one is deleted
    run.register_stuck_consumer()
    monitoring.wait_for('ducklake_sink_rows_total{pipeline="rival"} > 0')
    monitoring.wait_for('ducklake_maintenance_last_success_timestamp_seconds{operation="merge"}')
    monitoring.wait_for('ducklake_sink_flushed_rows_total{table="main.orders"} > 0')
    assert {one.labels["alertname"] for one in monitoring.query("ALERTS")} & OF_FAULTS == set()
    monitoring.receiver.alerts.clear()  # of queries that had not started yet


def poison_floods(run: FaultyRun, monitoring: Monitoring) -> None:
    run.feed_poison(60)

    monitoring.wait_for_alert("DuckLakeDeadLetters", pipeline="orders", cause="unreadable")
    told = monitoring.wait_for_alert("DuckLakeDeadLetterFlood", pipeline="orders", severity="critical")
    assert "of what pipeline orders reads are dead letters" in told["summary"]
    assert told["runbook_url"] == "docs/runbook.md#ducklakedeadletterflood"


def consumer_is_stuck(monitoring: Monitoring) -> None:
    monitoring.wait_for_alert("DuckLakeExpiryMargin", consumer="billing")


def second_driver_takes_over(run: FaultyRun, monitoring: Monitoring) -> None:
    run.take_over_rival()

    monitoring.wait_for_alert("DuckLakeFenced", pipeline="rival")


def storage_refuses(run: FaultyRun, monitoring: Monitoring) -> None:
    run.break_storage()
    run.feed(10)

    monitoring.wait_for_alert("DuckLakeFlushFailing", table="main.orders")
    monitoring.wait_for_alert("DuckLakeStorageRefuses", pipeline="bulk")
    monitoring.wait_for_alert("DuckLakeQueryDead", pipeline="bulk")
    run.mend_storage()
    run.wait_for_rows("orders", 59)


def catalog_goes_away(run: FaultyRun, monitoring: Monitoring) -> None:
    run.stop_catalog()
    monitoring.wait_for_alert("DuckLakeCatalogAway")
    run.start_catalog()
    run.feed(10)
    run.wait_for_rows("orders", 69)


def empty_panels(board: Dashboard, monitoring: Monitoring, start: float, end: float) -> list[str]:
    """Ask every query of a dashboard, draw it if asked to, and return which of them have nothing to show."""
    results: Results = {
        query.text: monitoring.query_range(filled(query.text), start, end, 1.0)
        for panel in board.panels
        for query in panel.queries
    }
    if folder := os.environ.get("DASHBOARD_PICTURES"):
        (Path(folder) / f"dashboard-{board.name}.svg").write_text(draw(board, results))
    asked = [(panel.title, query.text) for panel in board.panels for query in panel.queries]
    return [f"{board.name}, {title}: {text}" for title, text in asked if not has_numbers(results[text])]


def filled(query: str) -> str:
    """Put in the place of variables what Grafana puts there when everything is chosen."""
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return query


def has_numbers(found: object) -> bool:
    assert isinstance(found, list)
    return any(isfinite(value) for series in found if isinstance(series, Series) for _, value in series.points)
