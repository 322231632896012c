"""What a sink is told is checked at once, all of it, before anything is opened."""

import pickle
from datetime import timedelta

import pytest

from ducklake_core.errors import InvalidInput
from ducklake_sinks import DuckLakeSink, FlushPolicy

URL = "sqlite:///nowhere.sqlite"


def test_every_bad_argument_is_listed() -> None:
    with pytest.raises(InvalidInput) as caught:
        DuckLakeSink(
            "mysql://host/db",
            table="a.b.c",
            inline_rows=-1,
            on_bad_row="drop",
            partition_by=["week(ts)"],
            table_options={"target_file_siz": 1},
            merge_shema=True,
            flush="5m",  # type: ignore[arg-type] # a mistake that users make
        )

    message = str(caught.value)
    for part in (
        "mysql",
        "a.b.c",
        "inline_rows",
        "on_bad_row",
        "week(ts)",
        "target_file_size",
        "merge_schema",
        "flush",
    ):
        assert part in message
    assert len(caught.value.problems) == 8


def test_table_and_route_exclude_each_other() -> None:
    with pytest.raises(InvalidInput, match="exclude each other"):
        DuckLakeSink(URL, table="events", route="topic")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"partition_by": 5}, "partition_by is 5"),
        ({"sorted_by": [5]}, "sorted_by has 5"),
        ({"sorted_by": "ts SIDEWAYS"}, "sorted_by has 'ts SIDEWAYS'"),
        ({"table_options": {1: 2}}, "table_options is wrong: 1 is no name of an option"),
        ({"metadata_schema": "other"}, "metadata_schema is for PostgreSQL"),
        ({"dead_letter_table": "main.events"}, "dead_letter_table is the table itself"),
    ],
)
def test_argument_that_cannot_be_is_refused(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        DuckLakeSink(URL, table="events", **arguments)  # type: ignore[arg-type] # each of its own type


def test_budget_cannot_be_missing() -> None:
    with pytest.raises(InvalidInput, match="budget is None"):
        FlushPolicy(budget=None)  # type: ignore[arg-type] # a mistake that users make


@pytest.mark.parametrize("address", ["postgresql://lake:p@ss:word@db/lake", "postgresql://lake:se@cret@db/lake"])
def test_password_that_is_not_escaped_is_not_shown(address: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        DuckLakeSink(address, table="events")

    assert "ss:word" not in str(caught.value)
    assert "cret@" not in str(caught.value)


def test_sink_shows_no_password() -> None:
    sink = DuckLakeSink("postgresql://me:hunter2@host/lake", table="events", data_path="s3://me:hunter2@bucket/lake")

    assert "hunter2" not in repr(sink)
    assert "@bucket/lake" in repr(sink)
    assert "events" in repr(sink)


def test_bad_catalog_with_a_password_is_refused_without_it() -> None:
    with pytest.raises(InvalidInput) as caught:
        DuckLakeSink("mysql://me:hunter2@host/lake", table="events")

    assert "hunter2" not in str(caught.value)


def test_sink_pickles_without_connecting() -> None:
    sink = DuckLakeSink("postgresql://nobody@127.0.0.1:1/lake", table="events", stream="s")

    again = pickle.loads(pickle.dumps(sink))  # noqa: S301 # made in the line before

    assert again.options == sink.options


@pytest.mark.parametrize(
    ("table", "expected"),
    [("events", "main.events_dead_letters"), ('"my.db"."t"', '"my.db".t_dead_letters'), (None, "main.dead_letters")],
)
def test_dead_letters_go_to_a_table_beside(table: str | None, expected: str) -> None:
    assert DuckLakeSink(URL, table=table).options.dead_letters == expected


def test_policy_takes_numbers_and_texts() -> None:
    policy = FlushPolicy(rows=10, bytes="1.5KiB", age="2h", deletes=None, budget=0.5)

    assert (policy.rows, policy.bytes, policy.age) == (10, 1536, timedelta(hours=2))
    assert (policy.deletes, policy.budget) == (None, timedelta(seconds=0.5))
    assert pickle.loads(pickle.dumps(policy)) == policy  # noqa: S301 # made right here


def test_policy_lists_every_mistake() -> None:
    with pytest.raises(InvalidInput) as caught:
        FlushPolicy(rows=0, bytes="many", age="soon", deletes=-1, budget="x")

    assert len(caught.value.problems) == 5
