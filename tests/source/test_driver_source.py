"""What `DriverSource` answers to Spark, asked without Spark: which query is asked is told by the thread."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_sources.driver_source import DriverSource
from ducklake_sources.offsets import FeedOffset
from ducklake_sources.options import parse_options
from tests.fixtures.catalogs import Catalog

ONLY_SQLITE = pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)


@dataclass(frozen=True)
class Text:
    """An offset or a limit as the JVM has it."""

    text: str

    def json(self) -> str:
        return self.text

    def equals(self, other: object) -> bool:
        return self == other


class Session:
    """A session whose thread works for one query at a time."""

    def __init__(self) -> None:
        self.query_id = "one"
        self.sparkContext = SimpleNamespace(getLocalProperty=lambda _: self.query_id)
        streaming = SimpleNamespace(runtime=SimpleNamespace(SerializedOffset=Text))
        limits = SimpleNamespace(ReadLimit=SimpleNamespace(allAvailable=lambda: Text("all")))
        sql = SimpleNamespace(
            execution=SimpleNamespace(streaming=streaming),
            connector=SimpleNamespace(read=SimpleNamespace(streaming=limits)),
        )
        self._jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(sql=sql))))


class Asked:
    """A source that is asked by queries."""

    def __init__(self, catalog: Catalog) -> None:
        options = {"catalog": catalog.url, "table": "t", "readChangeFeed": "true", "startingVersion": "2"}
        self._session = Session()
        self.source = DriverSource(self._session, parse_options(options))  # type: ignore[arg-type] # a fake

    def by(self, query_id: str) -> DriverSource:
        self._session.query_id = query_id
        return self.source

    def latest(self, query_id: str) -> dict[str, Any]:  # Any: JSON
        found = self.by(query_id).latestOffset(None, Text("some"))
        return dict(json.loads(found.json()))


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    with Lake.create(catalog.url, data_path=catalog.data_path) as made:
        made.create_table("t", {"i": "int64"})
        made.append("t", pa.table({"i": [1]}))
        yield made


@pytest.fixture
def asked(catalog: Catalog, lake: Lake) -> Iterator[Asked]:  # noqa: ARG001 # the table must be there
    found = Asked(catalog)
    yield found
    for query_id in ("one", "other"):
        found.by(query_id).stop()


@ONLY_SQLITE
def test_each_query_ends_where_the_lake_was_at_its_own_start(asked: Asked, lake: Lake) -> None:
    asked.by("one").prepareForTriggerAvailableNow()
    lake.append("t", pa.table({"i": [2]}))
    asked.by("other").prepareForTriggerAvailableNow()
    lake.append("t", pa.table({"i": [3]}))

    ends = [asked.latest(query_id)["snapshot_id"] for query_id in ("one", "other", "one")]
    asked.by("one").stop()

    assert ends == [2, 3, 2]
    assert asked.latest("one")["snapshot_id"] == 4  # a run that takes all that comes


@ONLY_SQLITE
def test_run_begins_anew_after_one_that_failed_before_it_could_stop(asked: Asked, lake: Lake) -> None:
    asked.by("one").prepareForTriggerAvailableNow()
    lake.rename_column("t", "i", "number")
    lake.append("t", pa.table({"number": [2]}))

    asked.by("one").prepareForTriggerAvailableNow()

    assert asked.latest("one")["columns_as_of"] == 4


@ONLY_SQLITE
def test_range_without_a_start_begins_where_the_options_say(asked: Asked, lake: Lake) -> None:
    lake.append("t", pa.table({"i": [2]}))
    end = FeedOffset.parse(asked.latest("one"))

    _, task = asked.by("one").query.range_task(None, end)

    assert task is not None
    assert (task.span.start, task.span.end) == (1, 3)
