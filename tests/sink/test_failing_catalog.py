"""Batches into a lake whose database fails at each statement in turn: our error, and the batch once after a restart."""

from itertools import count
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Lake
from ducklake_core.errors import CommitOutcomeUnknown, DuckLakeError
from ducklake_sinks import DuckLakeSink
from tests.fixtures.consistency import check_lake
from tests.fixtures.failing import FailingCatalog
from tests.fixtures.proxy import Trouble

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROWS = 20
WAYS: dict[str, dict[str, Any]] = {  # Any: whatever a sink takes
    "inlined": {},
    "native": {"inline_rows": 5},
    "python tasks": {"inline_rows": 5, "partition_by": ["bucket(2, id)"]},
}


@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize("way", WAYS)
def test_batch_is_there_once_wherever_the_database_fails(
    spark: SparkSession, failing_catalog: FailingCatalog, way: str, trouble: Trouble
) -> None:
    rows, in_doubt = spark.range(0, ROWS, 1, 1), False
    write(failing_catalog, rows, 0, **WAYS[way])
    for batch in count(1):
        failing_catalog.failing.fail_at(batch - 1, trouble)
        error = write(failing_catalog, rows, batch, **WAYS[way])
        in_doubt = in_doubt or isinstance(error, CommitOutcomeUnknown)
        has_failed = failing_catalog.failing.end_failing()
        assert write(failing_catalog, rows, batch, **WAYS[way]) is None  # as Spark does when the query is restarted
        if not has_failed:
            break

    with Lake.open(failing_catalog.catalog.url) as lake:
        assert lake.table("main.events").count() == ROWS * (batch + 1)
    check_lake(failing_catalog.catalog, orphans=batch if in_doubt else 0)


@pytest.mark.parametrize("trouble", Trouble)
def test_lake_and_table_are_made_wherever_the_database_fails(
    spark: SparkSession, failing_catalog: FailingCatalog, trouble: Trouble
) -> None:
    """Until the first batch has made the lake; from then on, each batch makes a table."""
    rows = spark.range(0, ROWS, 1, 1)
    for number in count():
        failing_catalog.failing.fail_at(number, trouble)
        write(failing_catalog, rows, number, table=f"main.t{number}")
        has_failed = failing_catalog.failing.end_failing()
        assert write(failing_catalog, rows, number, table=f"main.t{number}") is None
        if not has_failed:
            break

    with Lake.open(failing_catalog.catalog.url) as lake:
        assert {lake.table(f"t{n}").count() for n in range(number + 1)} == {ROWS}


def write(
    failing_catalog: FailingCatalog,
    rows: DataFrame,
    batch: int,
    **options: Any,  # Any: see WAYS
) -> DuckLakeError | None:
    """Write a batch as a new process would, one that waits for nothing; return the error, if it is one of ours."""
    defaults = {"table": "main.events", "data_path": failing_catalog.catalog.data_path, "stream": "s", "flush": None}
    sink = DuckLakeSink(failing_catalog.url, **{**defaults, "catalog_timeout": 0, **options})
    try:
        sink(rows, batch)
    except DuckLakeError as error:
        return error
    finally:
        sink.close()
    return None
