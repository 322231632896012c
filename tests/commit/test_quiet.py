"""A lost race is ordinary: it is retried without a word on the log. On SQLite the lock comes first, nobody loses."""

import logging
from pathlib import Path

import pytest

from ducklake_core import Lake, faults
from tests.fixtures.postgres import PostgresDatabase


def test_a_lost_snapshot_id_leaves_no_warning(
    postgres_database: PostgresDatabase, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine, other = Lake.create(postgres_database.url, str(tmp_path)), Lake.open(postgres_database.url)
    mine.create_table("t", {"i": "int32"})

    def overtake() -> None:
        faults.inject("after_head_read", None)
        other.append("t", [{"i": 1}])

    faults.inject("after_head_read", overtake)
    with caplog.at_level(logging.WARNING), mine.transaction() as tx:
        tx.append("t", [{"i": 2}])

    assert tx.result is not None
    assert tx.result.attempts == 2
    assert caplog.records == []
    assert sorted(mine.table("t").read().column("i").to_pylist()) == [1, 2]
    mine.close()
    other.close()
