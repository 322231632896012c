"""Over Spark Connect: the sink travels to the server, and keeps every promise there, if its stream has a name."""

import pickle
import shutil
from types import SimpleNamespace
from typing import Any

import pytest

from ducklake_core.errors import EpochOutOfOrder, InvalidInput
from ducklake_sinks import DuckLakeSink
from ducklake_sinks.query import QueryFinder
from tests.fixtures.driver_jobs import Fault
from tests.fixtures.ingests import Ingest
from tests.fixtures.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ONLY_POSTGRES = pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)


def test_sink_pickles_without_connecting() -> None:
    sink = DuckLakeSink("postgresql://lake:secret@nowhere.invalid/lake", "main.events", stream="s")

    copy = pickle.loads(pickle.dumps(sink))  # noqa: S301 # our own

    assert copy.options == sink.options
    assert "secret" not in repr(copy)


@pytest.mark.parametrize("names", [["a", "b"], ["a", None], ["s", "s"]])
def test_query_that_cannot_be_told_from_others_is_refused(names: list[str | None]) -> None:
    finder = QueryFinder(session_with(*names))

    with pytest.raises(InvalidInput, match=r"2 queries run .* give it the stream's name with .*queryName\('s'\)"):
        finder.find(session_with(), "s")


@pytest.mark.parametrize("names", [["s", None], ["a", "s"], ["a"], [None]])
def test_query_is_the_only_one_or_has_the_streams_name(names: list[str | None]) -> None:
    found = QueryFinder(session_with(*names)).find(session_with(), "s")

    assert found.query_id == f"id of {'s' if 's' in names else names[0]}"


def session_with(*names: str | None) -> Any:  # Any: stands for a session over Connect with running queries
    queries = [SimpleNamespace(name=name, id=f"id of {name}", runId=f"run of {name}") for name in names]
    return SimpleNamespace(streams=SimpleNamespace(active=queries))


@ONLY_POSTGRES
def test_stream_without_a_name_is_refused(ingest: Ingest) -> None:
    ingest.feed(10)

    error = ingest.run(client="connect", stream=None)

    assert "over Spark Connect, give it a name with stream='…'" in str(error)
    ingest.check_secrets()


@ONLY_POSTGRES
def test_each_batch_is_committed_once_by_whichever_driver(ingest: Ingest, oracle: Oracle) -> None:
    ingest.feed(10, 100, 10)
    ingest.run_until_killed(Fault("after_commit", "kill", 1), client="connect")
    ingest.feed(100)

    error = ingest.run(client="connect")

    assert error is None
    ingest.check(oracle, 3)


@ONLY_POSTGRES
def test_deleted_checkpoint_is_refused_over_connect_too(ingest: Ingest) -> None:
    ingest.feed(10)
    assert ingest.run(client="connect") is None
    before = ingest.catalog.dump()

    shutil.rmtree(ingest.checkpoint)
    error = ingest.run(client="connect")

    ingest.check_refused(error, EpochOutOfOrder, before)
