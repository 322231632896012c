"""A COMMIT of a large batch gets no answer and the catalog stays away until the query fails: its files must stay.

Whether it has landed or not, the run after it has every row once and every registered file is there.
"""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from ducklake_sinks import DuckLakeSink
from tests.fixtures.catalogs import PostgresCatalog
from tests.fixtures.ingests import Ingest, with_secret
from tests.fixtures.oracle import Oracle
from tests.fixtures.patience import patience_for
from tests.fixtures.proxy import Fate, run_proxy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True),
]

SMALL = 10
LARGE = 100
FOREVER = 10**9


def run(spark: SparkSession, ingest: Ingest, sink: DuckLakeSink) -> None:
    """Let a query read all that was fed."""
    rows = spark.readStream.schema("id BIGINT, name STRING").option("maxFilesPerTrigger", "1").json(str(ingest.input))
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(ingest.checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def parquet_files(ingest: Ingest) -> set[Path]:
    return set(Path(ingest.catalog.data_path).rglob("*.parquet"))


def give_up_soon(sink: DuckLakeSink) -> None:
    """Let its commits be tried three times, at once."""
    assert sink._runtime is not None
    sink._runtime.lake.database.patience = patience_for(3)


@pytest.mark.parametrize("way", [{}, {"partition_by": ["bucket(2, id)"]}], ids=["native", "python tasks"])
@pytest.mark.parametrize("fate", [Fate.LOSE_REPLY, Fate.LOSE_REQUEST], ids=["it has landed", "it has not landed"])
def test_files_of_a_commit_without_an_answer_stay_and_the_next_run_has_every_row_once(
    spark: SparkSession, ingest: Ingest, oracle: Oracle, fate: Fate, way: dict[str, Any]
) -> None:
    assert isinstance(ingest.catalog, PostgresCatalog)
    ingest.feed(LARGE)  # after which the next is expected to be large: Spark writes it, and not the driver
    with run_proxy(ingest.catalog.database) as proxy:
        sink = DuckLakeSink(**ingest.sink(catalog=with_secret(proxy.database.url), **way))
        run(spark, ingest, sink)
        before = parquet_files(ingest)
        ingest.feed(LARGE)
        give_up_soon(sink)
        proxy.lose(fate, then_refuse=FOREVER)

        with pytest.raises(StreamingQueryException, match="CommitOutcomeUnknown"):
            run(spark, ingest, sink)

        sink.close()
    written = parquet_files(ingest) - before
    assert written  # a snapshot may name them
    entry = ingest.ledger()
    assert entry is not None
    assert entry.batch_id == (1 if fate is Fate.LOSE_REPLY else 0)

    ingest.feed(SMALL)
    follower = DuckLakeSink(**ingest.sink(**way))
    run(spark, ingest, follower)
    follower.close()

    ingest.check(oracle, 2, orphans=0 if fate is Fate.LOSE_REPLY else len(written))
