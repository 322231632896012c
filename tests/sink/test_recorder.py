"""A sink tells its recorder of each batch, and a recorder that fails breaks none."""

import pickle

import pytest
from pyspark.sql import SparkSession

from ducklake_core import Lake
from ducklake_core.observe import LOG_RECORDER, CommitMade, Event, Recorders
from ducklake_sinks import DuckLakeSink
from ducklake_sinks.report import BatchFailed, BatchReplayed, BatchReport, DeadLettersKept
from tests.fixtures.catalogs import Catalog
from tests.fixtures.sinks import MakeSink

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)]


class Memory:
    """Keeps the events, and then fails."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event) -> None:
        self.events.append(event)
        raise OSError("no room")


def test_recorder_hears_of_batches_and_breaks_none(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    memory = Memory()
    sink = make_sink(table=None, route="topic", on_bad_row="quarantine", recorder=memory)

    for _ in range(2):
        sink(spark.sql("SELECT * FROM VALUES (1, 'main.a'), (2, 'main.a'), (3, NULL) AS t (id, topic)"), 0)
    with pytest.raises(ZeroDivisionError), sink.transaction(1):
        raise ZeroDivisionError

    with Lake.open(catalog.url) as lake:
        assert lake.table("main.a").count() == 2
    kinds = (CommitMade, DeadLettersKept, BatchReport, BatchReplayed, BatchFailed)
    assert [type(event) for event in memory.events] == list(kinds)
    report = memory.events[2]
    assert isinstance(report, BatchReport)
    assert (report.names, report.rows, report.inlined_rows, report.files, report.dead_letters) == (
        {"stream": "s", "batch": 0},
        2,
        3,
        0,
        1,
    )
    assert {"collect", "commit", "total"} <= set(report.seconds)


def test_sink_pickles_with_its_recorder(catalog: Catalog) -> None:
    sink = DuckLakeSink(catalog.url, table="t", recorder=Recorders(LOG_RECORDER))

    copy = pickle.loads(pickle.dumps(sink))  # noqa: S301 # our own

    assert isinstance(copy._recorder, Recorders)
    assert copy.options == sink.options
