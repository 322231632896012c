"""What who polls tells the page: the lake as it was found, or that it was not, and how far pipelines are behind."""

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ducklake_core import Lake
from ducklake_core.errors import CatalogUnavailable
from ducklake_core.observe import CatalogAway
from ducklake_streaming.jobs.events import PipelineStarted
from ducklake_streaming.jobs.input_settings import KafkaInput
from ducklake_streaming.kafka.cluster import Cluster, Topic
from ducklake_streaming.kafka.errors import BrokerUnavailable
from ducklake_streaming.kafka.places import Place
from ducklake_streaming.metrics.declared import SINK_KAFKA_LAG
from ducklake_streaming.metrics.kafka_lag import KafkaLagPoll
from ducklake_streaming.metrics.lake_poll import LakePoll
from ducklake_streaming.metrics.registry import Numbers
from ducklake_streaming.metrics.status_page import StatusPage


def told(page: StatusPage) -> dict[str, Any]:  # Any: JSON
    return dict(json.loads(page.facts_json().body))


def test_the_page_shows_the_lake_as_the_last_poll_found_it(tmp_path: Path) -> None:
    url, page = f"sqlite:///{tmp_path}/lake.sqlite", StatusPage()
    ask = page.hears_lake(LakePoll(lambda: Lake.open(url), Numbers()))

    ask()
    before = told(page)
    with Lake.create(url, f"{tmp_path}/data/") as lake:
        lake.create_table("orders", {"id": "int64"})
    ask()

    assert (before["lake"], before["catalog_problem"]) == (None, None)
    assert [row["table"] for row in told(page)["rows"]["table"]] == ["main.orders"]


def test_the_page_says_why_a_poll_has_failed_until_one_goes_well(tmp_path: Path) -> None:
    url, page = f"sqlite:///{tmp_path}/lake.sqlite", StatusPage()
    Lake.create(url, f"{tmp_path}/data/").close()
    answers = iter([CatalogUnavailable("no answer from 'db'"), None])

    def open_lake() -> Lake:
        error = next(answers)
        if error is not None:
            raise error
        return Lake.open(url)

    ask = page.hears_lake(LakePoll(open_lake, Numbers()))
    with pytest.raises(CatalogUnavailable):
        ask()
    away = told(page)
    ask()

    assert away["catalog_problem"] == "CatalogUnavailable: no answer from 'db'"
    assert (told(page)["catalog_problem"], told(page)["lake"]["snapshot"]) == (None, 0)


def test_an_answer_of_the_catalog_ends_the_wait_for_it(tmp_path: Path) -> None:
    url, page = f"sqlite:///{tmp_path}/lake.sqlite", StatusPage()
    recorder = page.run.recorder("p")
    recorder.record(PipelineStarted("p"))
    page.run.record(CatalogAway("db", 1, 0.0, 120.0, CatalogUnavailable("no answer from 'db'")))
    away = told(page)

    page.hears_lake(LakePoll(lambda: Lake.open(url), Numbers()))()

    assert away["rows"]["pipeline"][0]["state"] == "waiting for the catalog"
    assert told(page)["rows"]["pipeline"][0]["state"] == "running"


def test_a_request_asks_the_catalog_nothing(tmp_path: Path) -> None:
    url, page = f"sqlite:///{tmp_path}/lake.sqlite", StatusPage()
    with Lake.create(url, f"{tmp_path}/data/") as lake:
        lake.create_table("orders", {"id": "int64"})
    poll = LakePoll(lambda: Lake.open(url), Numbers())
    page.hears_lake(poll)()
    poll.close()
    Path(tmp_path, "lake.sqlite").unlink()

    for make in page.routes().values():
        assert b"main.orders" in make().body


def test_lag_of_a_pipeline_is_that_of_all_its_partitions() -> None:
    page, numbers = StatusPage(), Numbers()
    for name in ("orders", "payments"):
        page.run.expect(name)
    numbers.replace(SINK_KAFKA_LAG, {("orders", "o", "0"): 5, ("orders", "o", "1"): 7, ("payments", "p", "0"): 0})

    for name in ("orders", "payments"):
        page.hears_lag(lambda: None, name, numbers)()

    assert {row["pipeline"]: row["lag_records"] for row in told(page)["rows"]["pipeline"]} == {
        "orders": 12,
        "payments": 0,
    }


class Broker(Cluster):
    """Answers for topics of one partition with so many records; -1: it does not answer."""

    def __init__(self, records: int) -> None:
        self.records = records

    def topics(self, names: Iterable[str]) -> list[Topic]:
        if self.records < 0:
            raise BrokerUnavailable("no broker answers")
        return [Topic(name, name, (0,)) for name in names]

    def earliest(self, places: Iterable[Place]) -> dict[Place, int]:
        return dict.fromkeys(places, 0)

    def latest(self, places: Iterable[Place]) -> dict[Place, int]:
        return dict.fromkeys(places, self.records)


def test_one_broker_that_does_not_answer_hides_no_lag_of_others() -> None:
    page, numbers, kafka = StatusPage(), Numbers(), KafkaInput(kind="kafka", servers="k:1", topics=("t",))
    brokers = {"orders": Broker(5), "payments": Broker(7)}
    asks = {}
    for name, broker in brokers.items():
        page.run.expect(name)
        lag = KafkaLagPoll(name, kafka, lambda _: {}, numbers, partial(lambda found, _: found, broker))
        asks[name] = page.hears_lag(lag, name, numbers)
        asks[name]()

    brokers["orders"].records, brokers["payments"].records = 9, -1
    with pytest.raises(BrokerUnavailable):
        asks["payments"]()
    asks["orders"]()

    assert numbers.series(SINK_KAFKA_LAG) == {("orders", "t", "0"): 9, ("payments", "t", "0"): 7}
    assert {row["pipeline"]: row["lag_records"] for row in told(page)["rows"]["pipeline"]} == {
        "orders": 9,
        "payments": 7,
    }
