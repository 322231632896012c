"""The parts of the exporter that need no Spark: numbers as text, probes, progress, pollers, and who declares what."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ducklake_core.clock import Clock
from ducklake_core.errors import CatalogUnavailable
from ducklake_core.observe import NO_RECORDER, CatalogAway, CommitMade, Event
from ducklake_streaming.jobs.events import (
    PipelineEnded,
    PipelineFailed,
    PipelineRestarted,
    PipelineStarted,
    RecordsRead,
)
from ducklake_streaming.jobs.exit_codes import ExitCode
from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.events import PollFailed
from ducklake_streaming.metrics.health import Health
from ducklake_streaming.metrics.poller import LONGEST_SECONDS, Poller
from ducklake_streaming.metrics.progress import ProgressCounter
from ducklake_streaming.metrics.query_runs import Run
from ducklake_streaming.metrics.registry import Numbers
from tests.fixtures.waiting import wait_until

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
ROOM = Path(m.__file__).parent


class Heard:
    """Keeps events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event) -> None:
        self.events.append(event)


# ---- declared and told


def test_names_follow_the_rules() -> None:
    for metric in m.METRICS:
        assert re.fullmatch(r"ducklake_(sink|source|table|catalog|maintenance|build|jvm)_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is m.Kind.COUNTER)
        assert metric.help.endswith(".")
    assert len({metric.name for metric in m.METRICS}) == len(m.METRICS)


def test_every_metric_is_told_by_somebody() -> None:
    names = {name for name, value in vars(m).items() if isinstance(value, m.Metric)}
    files = [*ROOM.glob("*.py"), ROOM.parent / "jobs" / "job_metrics.py"]
    code = "\n".join(file.read_text() for file in files if file.name != "declared.py")

    assert {name for name in names if not re.search(rf"\bm\.{name}\b", code)} == set()


def test_text_is_that_of_prometheus_and_escapes_labels() -> None:
    numbers = Numbers()
    numbers.add(m.SINK_ROWS, 3, "p", 'a"b\n\\')
    numbers.set(m.CATALOG_UP, 1)

    lines = numbers.text().decode().splitlines()

    assert 'ducklake_sink_rows_total{pipeline="p",table="a\\"b\\n\\\\"} 3.0' in lines
    assert "# TYPE ducklake_sink_rows_total counter" in lines
    assert f"# HELP ducklake_catalog_up {m.CATALOG_UP.help}" in lines
    assert any(line.startswith("process_cpu_seconds_total ") for line in lines)
    assert not any("_created" in line for line in lines)


def test_series_that_are_replaced_are_gone() -> None:
    numbers = Numbers()
    numbers.replace(m.TABLE_ROWS, {("a",): 1, ("b",): 2})

    numbers.replace(m.TABLE_ROWS, {("b",): 3})

    assert (numbers.value(m.TABLE_ROWS, "a"), numbers.value(m.TABLE_ROWS, "b")) == (None, 3)


# ---- probes


class Moment:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.clock = Clock(now=lambda: NOW, seconds=lambda: self.seconds)


@pytest.fixture
def moment() -> Moment:
    return Moment()


@pytest.fixture
def numbers() -> Numbers:
    found = Numbers()
    found.set(m.CATALOG_UP, 1)
    return found


@pytest.fixture
def health(numbers: Numbers, moment: Moment) -> Health:
    found = Health(numbers, 60, moment.clock)
    found.expect("a")
    found.expect("b", trigger_seconds=100)
    return found


def alive(health: Health) -> tuple[int, str]:
    answer = health.livez()
    return answer.status, answer.body.decode().strip()


def ready(health: Health) -> tuple[int, str]:
    answer = health.readyz()
    return answer.status, answer.body.decode().strip()


def start(health: Health) -> None:
    for name in ("a", "b"):
        health.record(PipelineStarted(name))


def test_process_is_alive_before_its_queries_start_and_ready_after(health: Health) -> None:
    assert alive(health) == (200, "ok")
    assert ready(health) == (503, "pipeline 'a' has not started")

    start(health)

    assert (alive(health), ready(health)) == ((200, "ok"), (200, "ok"))


def test_query_that_tells_nothing_is_not_alive(health: Health, moment: Moment) -> None:
    start(health)
    moment.seconds = 61

    assert alive(health) == (503, "pipeline 'a' has told no progress for 61 s")
    health.note_progress("a")
    assert alive(health) == (200, "ok")


def test_three_triggers_may_pass_in_silence(health: Health, moment: Moment) -> None:
    start(health)
    moment.seconds = 300
    health.note_progress("a")

    assert alive(health) == (200, "ok")
    moment.seconds = 301
    health.note_progress("a")
    assert alive(health) == (503, "pipeline 'b' has told no progress for 301 s")


@pytest.mark.parametrize(
    "event",
    [CatalogAway("c", 2, 10.0, 3600.0, CatalogUnavailable("away")), CommitMade(7, 1, 0.5), RecordsRead("a", NOW)],
    ids=lambda event: type(event).__name__,
)
def test_batch_that_takes_long_and_shows_signs_of_life_is_alive(health: Health, moment: Moment, event: Event) -> None:
    start(health)
    moment.seconds = 61

    health.recorder("b").record(event)
    assert alive(health) == (503, "pipeline 'a' has told no progress for 61 s")
    health.recorder("a").record(event)
    assert alive(health) == (200, "ok")


def test_query_may_wait_for_its_catalog_in_silence(health: Health, moment: Moment) -> None:
    health.expect("a", patience_seconds=200)
    start(health)
    moment.seconds = 260

    assert alive(health) == (200, "ok")
    moment.seconds = 261
    assert alive(health) == (503, "pipeline 'a' has told no progress for 261 s")


def test_catalog_that_nobody_asks_keeps_nobody_from_being_ready(moment: Moment) -> None:
    health = Health(Numbers(), 60, moment.clock)
    health.expect("a")
    health.record(PipelineStarted("a"))

    assert ready(health) == (200, "ok")


def test_failed_query_is_neither_alive_nor_ready(health: Health) -> None:
    start(health)

    health.record(PipelineFailed("b", ExitCode.FAILED, CatalogUnavailable("it is away")))

    assert alive(health) == (503, "pipeline 'b' has failed: it is away")
    assert ready(health) == (503, "pipeline 'b' has failed")


def test_query_that_has_ended_as_told_is_well(health: Health, moment: Moment) -> None:
    start(health)
    for name in ("a", "b"):
        health.record(PipelineEnded(name))
    moment.seconds = 1000

    assert (alive(health), ready(health)) == ((200, "ok"), (200, "ok"))


def test_query_that_begins_again_is_alive_and_not_ready(health: Health, moment: Moment) -> None:
    start(health)
    moment.seconds = 61
    health.record(PipelineRestarted("a", ValueError("no broker")))

    assert alive(health) == (200, "ok")
    assert ready(health) == (503, "pipeline 'a' has not started")


def test_nobody_is_ready_without_a_catalog(health: Health, numbers: Numbers) -> None:
    start(health)
    numbers.set(m.CATALOG_UP, 0)

    assert alive(health) == (200, "ok")
    assert ready(health) == (503, "the catalog has not answered")


# ---- progress


def progress(rows: int = 5, **source: object) -> dict[str, Any]:
    return {"id": "q", "runId": "r", "name": "a", "sources": [{"numInputRows": rows, **source}]}


@pytest.fixture
def counter(numbers: Numbers, health: Health, moment: Moment) -> ProgressCounter:
    return ProgressCounter(numbers, health, lambda name: name if name in ("a", "b") else None, moment.clock)


def test_progress_counts_rows_and_keeps_offsets(counter: ProgressCounter, numbers: Numbers) -> None:
    counter.started({"id": "q", "runId": "r", "name": "a"})
    counter.progressed(progress(endOffset={"topic": {"0": 7, "1": 9}}))
    counter.progressed(progress(rows=0, endOffset={"topic": {"0": 8, "1": 9}}))

    assert numbers.value(m.SINK_INPUT_ROWS, "a") == 5
    assert counter.offsets_of("a") == {("topic", 0): 8, ("topic", 1): 9}
    assert counter.offsets_of("b") == {}
    assert numbers.value(m.SINK_LAST_PROGRESS, "a") == NOW.timestamp()


def test_idle_query_tells_progress(counter: ProgressCounter, health: Health, moment: Moment) -> None:
    start(health)
    counter.started({"id": "q", "runId": "r", "name": "a"})
    moment.seconds = 61

    counter.idle({"id": "q", "runId": "r"})

    assert alive(health) == (200, "ok")


def test_queries_of_others_are_not_counted(counter: ProgressCounter, numbers: Numbers) -> None:
    counter.started({"id": "x", "runId": "y", "name": "mine"})
    counter.progressed({**progress(), "id": "x", "runId": "y", "name": "mine"})
    counter.idle({"id": "x", "runId": "y"})
    counter.ended({"id": "x", "runId": "y"})

    assert numbers.value(m.SINK_LAST_PROGRESS, "a") is None


def _feed(lost: int) -> Mapping[str, object]:
    return {"v": 1, "table_uuid": "u", "snapshot_id": 1, **({"lost_snapshots": lost} if lost else {})}


def test_lost_snapshots_are_those_of_the_batch(counter: ProgressCounter, numbers: Numbers) -> None:
    counter.progressed(progress(startOffset=_feed(0), endOffset=_feed(3)))
    counter.progressed(progress(startOffset=_feed(3), endOffset=_feed(3)))
    counter.progressed(progress(startOffset=None, endOffset={"topic": {"0": 1}}))

    assert numbers.value(m.SOURCE_LOST_SNAPSHOTS, "a") == 3


def test_feed_without_types_of_changes_has_inserts(counter: ProgressCounter, numbers: Numbers) -> None:
    counter.count_as_inserts("a")

    counter.progressed(progress(rows=4))

    assert numbers.value(m.SOURCE_ROWS, "a", "insert") == 4


def test_follower_hears_how_a_query_ends(counter: ProgressCounter) -> None:
    heard = Heard()
    counter.follow("a", heard)
    counter.started({"id": "q", "runId": "r", "name": "a"})
    counter.ended({"id": "q", "runId": "r", "exception": "ducklake_core.errors.StreamFenced: no"})
    counter.started({"id": "q", "runId": "r", "name": "a"})
    counter.ended({"id": "q", "runId": "r", "exception": None})

    [begun, failed, _, ended] = heard.events
    assert (begun, ended) == (PipelineStarted("a"), PipelineEnded("a"))
    assert isinstance(failed, PipelineFailed)
    assert failed.code is ExitCode.FENCED


# ---- whose query it is


@pytest.fixture
def unnamed(numbers: Numbers, health: Health) -> tuple[ProgressCounter, Heard]:
    """A counter of one pipeline, `a`, whose query may have no name, and who follows it."""
    counter, heard = ProgressCounter(numbers, health, lambda name: "a" if name in (None, "a") else None), Heard()
    counter.follow("a", heard)
    return counter, heard


def told_of(run: Run, **more: object) -> dict[str, Any]:
    return {"id": run.query_id, "runId": run.run_id, **more}


OWN, NEXT, OTHER = Run("own", "1"), Run("own", "2"), Run("other", "1")
FAILURE = {"exception": "ValueError: no"}


def test_a_second_query_without_a_name_is_none_of_the_pipeline(
    unnamed: tuple[ProgressCounter, Heard], numbers: Numbers
) -> None:
    counter, heard = unnamed
    counter.started(told_of(OWN))
    counter.started(told_of(OTHER))
    counter.progressed(told_of(OTHER, sources=[{"numInputRows": 5}]))
    counter.ended(told_of(OTHER, **FAILURE))

    assert heard.events == [PipelineStarted("a")]
    assert numbers.value(m.SINK_INPUT_ROWS, "a") is None


def test_the_query_whose_batches_the_sink_sees_is_that_of_the_pipeline(
    unnamed: tuple[ProgressCounter, Heard],
) -> None:
    counter, heard = unnamed
    counter.started(told_of(OTHER))
    counter.started(told_of(OWN))
    counter.claim("a", OWN)
    counter.claim("a", OWN)
    counter.ended(told_of(OTHER, **FAILURE))
    counter.ended(told_of(OWN))
    counter.started(told_of(OTHER))

    assert heard.events == [PipelineStarted("a"), PipelineStarted("a"), PipelineEnded("a")]


def test_a_query_that_failed_before_the_own_one_is_forgotten_with_its_first_batch(
    unnamed: tuple[ProgressCounter, Heard],
) -> None:
    counter, heard = unnamed
    counter.started(told_of(OTHER))
    counter.ended(told_of(OTHER, **FAILURE))
    counter.started(told_of(OWN, name="b"))
    counter.claim("a", OWN)

    assert [type(event) for event in heard.events] == [PipelineStarted, PipelineFailed, PipelineStarted]


@pytest.mark.parametrize("name", [None, "a"])
def test_late_news_of_an_old_run_do_not_end_the_new_one(
    unnamed: tuple[ProgressCounter, Heard], name: str | None
) -> None:
    counter, heard = unnamed
    counter.started(told_of(OWN, name=name))
    counter.started(told_of(NEXT, name=name))
    counter.progressed(told_of(OWN, name=name))
    counter.ended(told_of(OWN, **FAILURE))
    counter.ended(told_of(NEXT))

    assert heard.events == [PipelineStarted("a"), PipelineStarted("a"), PipelineEnded("a")]


# ---- pollers


def test_poller_waits_longer_after_failures_and_says_them() -> None:
    heard, asked = Heard(), list[int]()

    def ask() -> None:
        asked.append(1)
        if len(asked) < 9:
            raise CatalogUnavailable("away")

    poller = Poller("catalog", 10, ask, heard)

    assert [poller.poll() for _ in range(10)] == [20, 40, *[LONGEST_SECONDS] * 6, 10, 10]
    assert [event.times for event in heard.events if isinstance(event, PollFailed)] == [*range(1, 9)]


def test_poller_ends_while_it_rests() -> None:
    asked = list[int]()
    poller = Poller("catalog", 3600, lambda: asked.append(1), NO_RECORDER)
    poller.start()
    wait_until(lambda: asked)

    poller.close()

    assert asked == [1]
    assert poller.is_stopped
