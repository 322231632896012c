"""What maintenance is asked to do: texts become values, nonsense is refused before anything is done."""

from datetime import timedelta
from typing import Any

import pytest

from ducklake_core.errors import InvalidInput
from ducklake_core.maintenance.report import Operation
from ducklake_streaming.jobs.maintenance_settings import MaintenanceSettings
from ducklake_streaming.maintenance.request import MaintenanceRequest


def test_operations_are_done_in_the_order_of_checkpoint_whatever_the_order_they_are_named_in() -> None:
    found = MaintenanceRequest.of(operations=["orphans", "merge", "flush", "merge"])

    assert found.operations == (Operation.FLUSH, Operation.MERGE, Operation.ORPHANS)
    assert [*MaintenanceRequest.of().operations] == ["flush", "expire", "merge", "rewrite", "cleanup", "orphans"]


@pytest.mark.parametrize("age", [604800, "7d", timedelta(days=7)], ids=str)
def test_ages_are_seconds_texts_or_times(age: Any) -> None:
    found = MaintenanceRequest.of(table="orders", expire_older_than=age, orphans_older_than=age)

    assert (found.expire_older_than, found.orphans_older_than) == (timedelta(days=7), timedelta(days=7))
    assert (found.tables, found.delete_orphans) == (("orders",), False)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"operations": ["merg"]}, "there is no operation 'merg': did you mean 'merge'?"),
        ({"expire_older_than": "a week"}, "expire_older_than is 'a week', but must be a number of seconds"),
        ({"any_age": True, "orphans_older_than": "7d"}, "--all takes files of every age"),
        ({"keep_last": 0}, "keep_last is 0, but the newest snapshot always stays"),
        ({"delete_threshold": 50}, "delete_threshold is 50, but must be a part of a file's rows: 0 to 1"),
    ],
)
def test_nonsense_is_refused(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        MaintenanceRequest.of(**asked)

    assert told in str(caught.value)


def test_a_job_maintains_all_but_what_sinks_do_and_deletes_no_orphans() -> None:
    found = MaintenanceSettings.parse({}).request()

    assert [*found.operations] == ["expire", "merge", "rewrite", "cleanup", "orphans"]
    assert (found.expire_older_than, found.delete_orphans) == (None, False)


def test_a_job_file_chooses_what_is_done() -> None:
    found = MaintenanceSettings.parse(
        {"flush": True, "merge": False, "orphans": "delete", "expire_older_than": "7d", "tables": ["main.orders"]}
    ).request()

    assert [*found.operations] == ["flush", "expire", "rewrite", "cleanup", "orphans"]
    assert (found.expire_older_than, found.delete_orphans, found.tables) == (timedelta(days=7), True, ("main.orders",))
    assert "orphans" not in MaintenanceSettings.parse({"orphans": "leave"}).request().operations
