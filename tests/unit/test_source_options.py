"""What a read is told is checked at once, all of it, before anything is opened."""

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.errors import InvalidInput
from ducklake_core.feed.change_types import ChangeType
from ducklake_sinks.options import SinkOptions
from ducklake_sources.option_values import Start
from ducklake_sources.options import (
    SINK_ARGUMENTS,
    SourceOptions,
    check_stream,
    check_table_read,
    parse_options,
)

LAKE = {"catalog": "sqlite:///nowhere.sqlite", "table": "main.events"}
SECRET = "hunter2"  # noqa: S105 # what must not be seen


def test_names_are_equal_regardless_of_case() -> None:
    options = parse_options({"CATALOG": LAKE["catalog"], "table": "t", "maxrowspertrigger": "5", "versionASOF": "3"})

    assert (options.max_rows_per_trigger, options.version_as_of) == (5, 3)


def test_defaults_are_those_of_the_documentation() -> None:
    options = parse_options(LAKE)

    assert options.max_versions_per_trigger == 1000
    assert options.consumer_expiration == timedelta(days=7)
    assert options.change_types == frozenset(ChangeType)
    assert options.fail_on_data_loss
    assert not any([options.read_change_feed, options.skip_change_commits, options.ignore_deletes])


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("readChangeFeed", "TRUE", "read_change_feed", True),
        ("startingVersion", "Earliest", "starting_version", Start.EARLIEST),
        ("startingVersion", "latest", "starting_version", Start.LATEST),
        ("startingVersion", "12", "starting_version", 12),
        ("startingTimestamp", "2026-01-31", "starting_timestamp", datetime(2026, 1, 31, tzinfo=UTC)),
        (
            "timestampAsOf",
            "2026-01-31T12:00:00+02:00",
            "timestamp_as_of",
            datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2))),
        ),
        ("maxBytesPerTrigger", "64MB", "max_bytes_per_trigger", 64_000_000),
        ("maxBytesPerTrigger", "1024", "max_bytes_per_trigger", 1024),
        ("filter", "id > 3", "filter", "id > 3"),
        ("filterPushdown", "true", "filter_pushdown", True),
        ("columns", 'id, "unit, ""price""",`a``b` , name', "columns", ("id", 'unit, "price"', "a`b", "name")),
    ],
)
def test_value_is_parsed(name: str, text: str, field: str, value: object) -> None:
    assert getattr(parse_options({**LAKE, name: text}), field) == value


def test_values_that_need_another_option_are_parsed() -> None:
    feed = parse_options({**LAKE, "readChangeFeed": "true", "changeTypes": "insert, DELETE"})
    consumer = parse_options({**LAKE, "consumerId": "etl", "consumerExpiration": "12h"})

    assert feed.change_types == {ChangeType.insert, ChangeType.delete}
    assert consumer.consumer_expiration == timedelta(hours=12)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_any_column_can_be_named(names: list[str]) -> None:
    quoted = ",".join('"{}"'.format(name.replace('"', '""')) for name in names)

    assert parse_options({**LAKE, "columns": quoted}).columns == tuple(names)


def test_every_mistake_is_listed() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_options(
            {
                "catalog": "mysql://host/db",
                "table": "a.b.c",
                "readChangeFed": "true",
                "startingVersion": "first",
                "maxRowsPerTrigger": "0",
                "failOnDataLoss": "no",
                "timestampAsOf": "yesterday",
                "columns": "a,,b",
            }
        )

    assert len(caught.value.problems) == 8
    for part in ("mysql", "a.b.c", "did you mean 'readChangeFeed'?", "'first'", "'0'", "'no'", "'yesterday'", "'a,,b'"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"versionAsOf": "1", "timestampAsOf": "2026-01-01"}, "versionAsOf and timestampAsOf exclude each other"),
        ({"startingVersion": "1", "startingTimestamp": "2026-01-01"}, "startingVersion and startingTimestamp exclude"),
        ({"endingVersion": "1", "endingTimestamp": "2026-01-01"}, "endingVersion and endingTimestamp exclude"),
        ({"versionAsOf": "1", "startingVersion": "1"}, "versionAsOf and startingVersion exclude"),
        ({"readChangeFeed": "true", "versionAsOf": "1"}, "versionAsOf and readChangeFeed exclude"),
        ({"readChangeFeed": "true", "ignoreDeletes": "true"}, "ignoreDeletes and readChangeFeed exclude"),
        ({"readChangeFeed": "true", "skipChangeCommits": "true"}, "skipChangeCommits and readChangeFeed exclude"),
        ({"readChangeFeed": "true", "filter": "id > 3"}, "filter and readChangeFeed exclude"),
        ({"changeTypes": "insert"}, "changeTypes needs readChangeFeed"),
        ({"netChanges": "true"}, "netChanges needs readChangeFeed"),
        ({"consumerExpiration": "1d"}, "consumerExpiration needs consumerId"),
        ({"startingVersion": "5", "endingVersion": "4"}, "startingVersion 5 is after endingVersion 4"),
        ({"startingTimestamp": "2026-02-01", "endingTimestamp": "2026-01-01"}, "startingTimestamp .* is after"),
        ({"metadataSchema": "other"}, "metadataSchema is for PostgreSQL"),
        ({"path": f"postgresql://u:{SECRET}@h/d"}, r"load\(\) takes no path here: .* 'catalog'"),
    ],
)
def test_contradiction_is_refused(options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        parse_options({**LAKE, **options})

    assert len(caught.value.problems) == 1
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("missing", ["catalog", "table"])
def test_lake_and_table_must_be_named(missing: str) -> None:
    with pytest.raises(InvalidInput, match=f"{missing} is missing: give the"):
        parse_options({name: value for name, value in LAKE.items() if name != missing})


def test_false_contradicts_nothing() -> None:
    parse_options({**LAKE, "readChangeFeed": "false", "versionAsOf": "1", "ignoreDeletes": "false"})


@pytest.mark.parametrize("name", ["startingVersion", "endingVersion"])
def test_range_is_not_for_table_reads(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name} is for a change feed: add readChangeFeed=true"):
        check_table_read(parse_options({**LAKE, name: "1"}))


def test_time_travel_is_not_for_streams() -> None:
    with pytest.raises(InvalidInput, match="versionAsOf is for batch reads"):
        check_stream(parse_options({**LAKE, "versionAsOf": "1"}))


@pytest.mark.parametrize(
    "catalog",
    [
        f"postgresql://lake:{SECRET}@host/lake",
        f"ducklake:postgres:dbname=lake user=lake password={SECRET}",
        f"postgresql://host/lake?password={SECRET}",
    ],
)
def test_no_secret_is_shown(catalog: str) -> None:
    options = parse_options({"catalog": catalog, "table": "t", "dataPath": f"s3://key:{SECRET}@bucket/lake"})

    assert SECRET not in repr(pickle.loads(pickle.dumps(options)))  # noqa: S301 # our own
    with pytest.raises(InvalidInput) as caught:
        parse_options({"catalog": catalog, "table": "a.b.c", "odd": SECRET[:3]})
    assert SECRET not in str(caught.value)


def test_argument_of_the_sink_is_called_that() -> None:
    with pytest.raises(InvalidInput, match="'mergeSchema' is no option of reads: it is the argument merge_schema of"):
        parse_options({**LAKE, "mergeSchema": "true"})


@pytest.mark.parametrize(("wrong", "right"), [("catalog_timeout", "catalogTimeout"), ("data_path", "dataPath")])
def test_option_with_underscores_is_asked_for_by_its_name(wrong: str, right: str) -> None:
    with pytest.raises(InvalidInput, match=f"there is no option '{wrong}': did you mean '{right}'"):
        parse_options({**LAKE, wrong: "5m"})


def test_every_argument_of_the_sink_is_known_by_its_name() -> None:
    arguments = set(SinkOptions.model_fields)

    assert arguments - set(SourceOptions.model_fields) <= set(SINK_ARGUMENTS)


@pytest.mark.parametrize("name", ["startingOffsets", "checkpointLocation", "inferSchema", "ignoreChanges", "url"])
def test_nothing_is_proposed_that_is_not_near(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_options({**LAKE, name: "1"})

    assert "did you mean" not in str(caught.value)
