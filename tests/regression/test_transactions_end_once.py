"""A transaction ends once: what it committed is neither committed again nor taken away, and a half change never."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput, NotNullViolation
from tests.fixtures.catalogs import Catalog

FEW = pa.table({"id": range(20, 25), "v": ["x"] * 5})  # inlined
MANY = pa.table({"id": range(20), "v": ["x"] * 20})  # a file


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64", "v": "varchar"})
        yield lake


def test_a_commit_inside_the_block_is_not_repeated_at_its_end(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.append("t", MANY)
        tx.commit()

    assert lake.table("t").count() == 20


def test_an_error_after_the_commit_leaves_its_files(lake: Lake) -> None:
    def fail_after_commit() -> None:
        with lake.transaction() as tx:
            tx.append("t", MANY)
            tx.commit()
            raise KeyError

    with pytest.raises(KeyError):
        fail_after_commit()

    assert lake.table("t").read().num_rows == 20


@pytest.mark.parametrize("end", ["commit", "discard"])
def test_an_ended_transaction_takes_nothing_more(lake: Lake, end: str) -> None:
    tx = lake.transaction()
    getattr(tx, end)()

    for act in (tx.commit, lambda: tx.append("t", FEW), lambda: tx.create_schema("s"), lambda: tx.drop_table("t")):
        with pytest.raises(InvalidInput, match="has ended"):
            act()


def test_a_commit_refused_for_its_message_leaves_no_file(lake: Lake, catalog: Catalog) -> None:
    lake.set_option("require_commit_message", value=True)

    with pytest.raises(InvalidInput, match="requires a message"):
        lake.append("t", MANY)

    assert not list(Path(catalog.data_path).rglob("*.parquet"))


def test_an_update_that_failed_halfway_is_not_committed(lake: Lake) -> None:
    lake.append("t", MANY)
    lake.append("t", FEW)
    lake.set_not_null("t", "v")

    tx = lake.transaction()
    with pytest.raises(NotNullViolation):
        tx.update("t", {"v": None}, "id > 3")
    with pytest.raises(InvalidInput, match="failed halfway"):
        tx.commit()

    assert lake.table("t").count() == 25


def test_a_stream_that_needs_a_second_attempt_is_not_lost(lake: Lake, catalog: Catalog) -> None:
    lake.append("t", FEW)  # now the definition is remembered
    with Lake.open(catalog.url) as other, other.transaction() as tx:
        tx.rename_table("t", "old")
        tx.create_table("t", {"id": "int64", "v": "varchar"})

    snapshot = lake.append("t", pa.RecordBatchReader.from_batches(FEW.schema, FEW.to_batches()))

    assert snapshot is not None
    assert lake.table("t").count() == 5
