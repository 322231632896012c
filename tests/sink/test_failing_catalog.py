"""Batches into a lake whose database fails at each statement in turn: our error, and the batch once after a restart."""

from collections.abc import Iterator
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
# All statements of a batch, and those that only files have. What Python tasks write is committed as Spark's own files.
WAYS: dict[str, dict[str, Any]] = {"inlined": {}, "files": {"inline_rows": 5}}  # Any: whatever a sink takes


@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize("way", WAYS)
def test_batch_is_there_once_wherever_the_database_fails(
    spark: SparkSession, failing_catalog: FailingCatalog, way: str, trouble: Trouble
) -> None:
    rows = spark.range(0, ROWS, 1, 1)
    assert write(failing_catalog, rows, 0, **WAYS[way]) is None

    errors = [*errors_until_written(failing_catalog, trouble, rows, 1, **WAYS[way])]

    assert len(errors) > 10
    with Lake.open(failing_catalog.catalog.url) as lake:
        assert lake.table("main.events").count() == 2 * ROWS
    check_lake(failing_catalog.catalog, orphans=sum(isinstance(error, CommitOutcomeUnknown) for error in errors))


@pytest.mark.parametrize("trouble", Trouble)
def test_lake_is_made_wherever_the_database_fails(
    spark: SparkSession, failing_catalog: FailingCatalog, trouble: Trouble
) -> None:
    errors = [*errors_until_written(failing_catalog, trouble, spark.range(0, ROWS, 1, 1), 0)]

    assert len(errors) > 10
    with Lake.open(failing_catalog.catalog.url) as lake:
        assert lake.table("main.events").count() == ROWS
    check_lake(failing_catalog.catalog)


def errors_until_written(
    failing_catalog: FailingCatalog,
    trouble: Trouble,
    rows: DataFrame,
    batch: int,
    **options: Any,  # Any: see WAYS
) -> Iterator[DuckLakeError | None]:
    """Write a batch again and again, as Spark does after a restart; each time, the next one of its statements fails."""
    for number in count():
        failing_catalog.failing.fail_at(number, trouble)
        yield write(failing_catalog, rows, batch, **options)
        if not failing_catalog.failing.end_failing():
            return


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
