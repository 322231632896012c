"""Commands that look at a lake: what they show to people and to machines, and how they fail."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core import Consumer, Epoch, Lake
from ducklake_core.model import SnapshotId
from ducklake_sinks.dead_letters import DEAD_LETTER_SCHEMA
from ducklake_streaming.cli import main
from tests.fixtures.catalogs import Catalog, PostgresCatalog
from tests.fixtures.oracle import Oracle

STREAM = '{"stream": "orders", "batch_id": %d, "offsets": [{"orders": {"0": %d}}]}'


@pytest.fixture
def lake(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """Give a lake that the environment names."""
    monkeypatch.setenv("DUCKLAKE_CATALOG", catalog.url)
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.set_option("data_inlining_row_limit", 100)
        lake.create_table("orders", {"id": "int64", "kind": "varchar"})
        yield lake


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": list(numbers), "kind": [f"kind {i}" for i in numbers]})


class Shown:
    """Runs commands, and holds what the last one has shown."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""
        self.code = -1

    def run(self, *arguments: str) -> str:
        self.code = main(arguments)
        self.out, self.err = self._capsys.readouterr()
        return self.out

    def json(self, *arguments: str) -> list[dict[str, Any]]:
        lines = self.run(*arguments, "--json").splitlines()
        assert (self.code, self.err) == (0, "")
        return [json.loads(line) for line in lines]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    return Shown(capsys)


def commit_epoch(lake: Lake, batch_id: int, *numbers: int) -> None:
    epoch = Epoch("orders", batch_id, "query", "run")
    with lake.transaction(epoch=epoch, author="sink", extra_info=STREAM % (batch_id, 100 * batch_id)) as tx:
        tx.append("orders", rows(*numbers))


def test_tables_are_shown_with_what_is_in_them(lake: Lake, shown: Shown) -> None:
    lake.append("orders", rows(1, 2))
    lake.append("orders", rows(*range(1000)))

    [row] = shown.json("tables")
    table = shown.run("tables")

    size = sum(file.file_size_bytes for file in lake.table("orders").files())
    assert row == {"table": "main.orders", "rows": 1002, "files": 1, "file_bytes": size, "inlined_rows": 2}
    assert table.splitlines()[0].split() == ["table", "rows", "files", "size", "inlined"]
    assert table.splitlines()[1].split()[:3] == ["main.orders", "1,002", "1"]
    assert "\x1b" not in table


@pytest.mark.usefixtures("lake")
def test_columns_of_a_table_are_shown(shown: Shown) -> None:
    assert [(row["column"], row["type"]) for row in shown.json("tables", "orders")] == [
        ("id", "int64"),
        ("kind", "varchar"),
    ]


def test_snapshots_tell_what_changed_by_name_and_who_did_it(lake: Lake, shown: Shown) -> None:
    commit_epoch(lake, 0, 1)
    lake.drop_table("orders")

    found = shown.json("snapshots")

    assert [row["changes"] for row in found[1:]] == [
        ["created table main.orders"],
        ["inlined into main.orders"],
        ["dropped table main.orders"],
    ]
    assert (found[2]["stream"], found[2]["batch_id"], found[2]["author"]) == ("orders", 0, "sink")
    assert [row["snapshot"] for row in shown.json("snapshots", "--limit", "2")] == [2, 3]
    assert [row["snapshot"] for row in shown.json("snapshots", "--since", found[2]["time"])] == [2, 3]
    assert len(shown.json("snapshots", "--since", "1h")) == 4
    assert shown.run("snapshots", "--since", "0s").strip() == "no snapshots since then"


def test_rows_are_read_in_each_format(lake: Lake, shown: Shown, tmp_path: Path) -> None:
    lake.append("orders", pa.table({"id": [1, 2], "kind": ['a "b", c', None]}))
    file = tmp_path / "orders.parquet"

    assert shown.run("read", "orders") == 'id  kind\n 1  a "b", c\n 2  NULL\n'
    assert shown.run("read", "orders", "--format", "csv") == 'id,kind\n1,"a ""b"", c"\n2,\n'
    assert shown.json("read", "orders") == [{"id": 1, "kind": 'a "b", c'}, {"id": 2, "kind": None}]
    assert shown.run("read", "orders", "--format", "parquet", "--output", str(file)) == ""
    assert pq.read_table(file).to_pylist() == lake.table("orders").read().to_pylist()
    assert shown.run("read", "orders", "--format", "parquet") == ""
    assert (shown.code, "--output" in shown.err) == (2, True)


def test_a_read_is_of_some_columns_and_rows_at_a_snapshot(lake: Lake, shown: Shown) -> None:
    first = lake.append("orders", rows(*range(500)))
    assert first is not None
    lake.append("orders", rows(1000))

    wanted = ("--columns", "kind, id", "--where", "id >= 499", "--at")
    assert shown.json("read", "main.orders", *wanted, str(first.snapshot_id)) == [{"kind": "kind 499", "id": 499}]
    assert len(shown.json("read", "orders", *wanted, "0s")) == 2
    assert len(shown.json("read", "orders", "--limit", "7")) == 7
    assert shown.json("read", "orders", "--limit", "0") == []
    assert len(shown.json("read", "orders")) == 501


def test_a_table_on_the_screen_has_a_hundred_rows_and_says_so(lake: Lake, shown: Shown) -> None:
    lake.append("orders", rows(*range(100)))
    assert len(shown.run("read", "orders").splitlines()) == 101
    assert shown.err == ""

    lake.append("orders", rows(100))

    assert len(shown.run("read", "orders").splitlines()) == 101
    assert "the first 100 rows" in shown.err
    assert len(shown.run("read", "orders", "--limit", "101").splitlines()) == 102
    assert shown.err == ""


def test_a_limit_ends_a_read_before_other_files_are_opened(lake: Lake, shown: Shown) -> None:
    lake.append("orders", rows(*range(200)))
    lake.append("orders", rows(*range(200)))
    Path(lake.table("orders").files()[1].path).unlink()

    assert len(shown.json("read", "orders", "--limit", "200")) == 200
    shown.run("read", "orders", "--json")
    assert (shown.code, "the file is gone" in shown.err) == (1, True)


def test_a_file_is_there_whole_or_not_at_all(lake: Lake, shown: Shown, tmp_path: Path) -> None:
    lake.append("orders", rows(*range(200)))
    Path(lake.table("orders").files()[0].path).unlink()
    output = tmp_path / "orders.csv"
    output.write_text("of before")

    shown.run("read", "orders", "--format", "csv", "--output", str(output))

    assert (shown.code, output.read_text(), list(tmp_path.glob(".*.part"))) == (1, "of before", [])


def test_what_a_terminal_would_obey_is_shown_instead(lake: Lake, shown: Shown) -> None:
    lake.append("orders", pa.table({"id": [1], "kind": ["\x1b[2J\n\x9b"]}))

    assert shown.run("read", "orders").splitlines()[1] == r" 1  \x1b[2J\n\x9b"


def test_changes_are_in_the_order_of_snapshots(lake: Lake, shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ducklake_streaming.cli.changes._MAX_SNAPSHOTS", 2)
    lake.append("orders", rows(1, 2))
    lake.update("orders", {"kind": "new"}, "id = 1")
    lake.delete("orders", "id = 2")
    lake.append("orders", rows(*range(1000, 1200)))

    found = shown.json("changes", "orders")

    assert [(row["_commit_version"], row["_change_type"], row["id"]) for row in found[:5]] == [
        (2, "insert", 1),
        (2, "insert", 2),
        (3, "update_preimage", 1),
        (3, "update_postimage", 1),
        (4, "delete", 2),
    ]
    assert [row["id"] for row in found[5:]] == list(range(1000, 1200))
    assert {row["_commit_version"] for row in shown.json("changes", "orders", "--start", "3", "--end", "4")} == {3, 4}
    assert shown.json("changes", "orders", "--start", "0", "--end", "1") == []


def test_changes_that_have_expired_end_with_a_code_of_their_own(
    catalog: Catalog, lake: Lake, shown: Shown, oracle: Oracle
) -> None:
    lake.append("orders", rows(1))
    lake.append("orders", rows(2))
    lake.close()
    oracle.attach(catalog.attach)
    oracle.execute("CALL ducklake_expire_snapshots('lake', versions => [2])")
    oracle.close()

    shown.run("changes", "orders", "--start", "1")

    assert shown.code == 3
    assert shown.err.startswith("ducklake-stream: cannot read the changes of table 'main.orders'")


def test_streams_are_shown_with_their_rate_and_offsets(lake: Lake, shown: Shown) -> None:
    commit_epoch(lake, 0, 1)
    commit_epoch(lake, 1, 2, 3)

    [row] = shown.json("streams")

    assert shown.json("streams", "list")[0].keys() == row.keys()
    assert (row["stream"], row["batch_id"], row["rows"], row["snapshot"]) == ("orders", 1, 2, 3)
    assert row["rows_per_second"] > 0
    assert shown.json("streams", "show", "orders")[0]["offsets"] == [{"orders": {"0": 100}}]
    assert shown.run("streams", "show", "orders").splitlines()[0].split() == ["stream", "orders"]
    shown.run("streams", "show", "order")
    assert (shown.code, "did you mean 'orders'?" in shown.err) == (2, True)


def test_a_stream_is_forgotten_when_told_to_and_what_that_means_is_true(
    lake: Lake, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_epoch(lake, 0, 1)
    commit_epoch(lake, 1, 2)
    monkeypatch.setattr("sys.stdin", io.StringIO())

    shown.run("streams", "forget", "orders")
    assert (shown.code, len(lake.ledger_entries())) == (1, 1)
    assert "LedgerBehind" in shown.err

    shown.run("streams", "forget", "orders", "--yes")

    assert (shown.code, lake.ledger_entries(), lake.table("orders").count()) == (0, [], 2)
    with pytest.raises(Exception, match="no entry for the stream") as refused:
        commit_epoch(lake, 2, 3)
    assert type(refused.value).__name__ == "LedgerBehind"
    commit_epoch(lake, 0, 1)
    assert lake.table("orders").count() == 3, "batch 0 is written a second time, as the warning says"


def test_consumers_are_shown_with_how_far_behind_they_are_and_forgotten(lake: Lake, shown: Shown) -> None:
    lake.append("orders", rows(1))
    lake.append("orders", rows(2))
    now = datetime.now(UTC)
    uuid = lake.table("orders").version.table_uuid
    lake.record_consumer(Consumer("silver", uuid, SnapshotId(1), now, now + timedelta(days=1)))
    lake.record_consumer(Consumer("old", uuid4(), SnapshotId(3), now, now - timedelta(days=1)))

    old, silver = shown.json("consumers")

    assert (silver["table"], silver["lag_snapshots"], silver["expired"]) == ("main.orders", 2, False)
    assert (old["table"], old["lag_snapshots"], old["expired"]) == ("(dropped)", 0, True)
    shown.run("consumers", "forget", "gold")
    assert (shown.code, "there are old, silver" in shown.err) == (2, True)
    shown.run("consumers", "forget", "silver", "--yes")
    assert [one.name for one in lake.consumers()] == ["old"]


def test_flush_shows_what_it_moved(lake: Lake, shown: Shown) -> None:
    lake.create_table("empty", {"id": "int64"})
    lake.append("orders", rows(1, 2))

    [row] = shown.json("flush", "--all")

    assert (row["table"], row["rows"], row["files"]) == ("main.orders", 2, 1)
    assert shown.run("flush", "orders", "empty").strip() == "nothing was inlined"
    for wrong in (("flush",), ("flush", "orders", "--all")):
        shown.run(*wrong)
        assert shown.code == 2
    shown.run("flush", "order")
    assert (shown.code, "did you mean 'main.orders'?" in shown.err) == (2, True)


def test_status_shows_everything_of_a_lake(lake: Lake, shown: Shown) -> None:
    lake.create_table("dead", DEAD_LETTER_SCHEMA)
    letter = {"stream": "s", "batch_id": 0, "table_name": "t", "reason": "why", "row": "{}", "quarantined_at": None}
    lake.append("dead", pa.Table.from_pylist([letter], DEAD_LETTER_SCHEMA))
    lake.append("orders", rows(*range(300)))
    lake.delete("orders", "id < 5")
    commit_epoch(lake, 0, 1)
    now = datetime.now(UTC)
    lake.record_consumer(Consumer("silver", lake.table("orders").version.table_uuid, SnapshotId(2), now, None))

    found = shown.json("status")
    screen = shown.run("status")

    kinds = {row["kind"]: row for row in found}
    head = lake.snapshots()[-1].snapshot_id
    assert (kinds["lake"]["snapshot"], kinds["lake"]["snapshots"]) == (head, head + 1)
    assert (kinds["stream"]["stream"], kinds["consumer"]["lag_snapshots"]) == ("orders", head - 2)
    assert kinds["dead_letters"] == {"kind": "dead_letters", "table": "main.dead", "rows": 1}
    orders = next(row for row in found if row["kind"] == "table" and row["table"] == "main.orders")
    wanted = {"rows": 296, "files": 1, "small_files": 1, "deleted_rows": 5, "inlined_rows": 1}
    assert {key: orders[key] for key in wanted} == wanted
    assert orders["inlined_bytes"] > 0 <= orders["inlined_age_seconds"]
    [newest, *_] = [row for row in found if row["kind"] == "snapshot"]
    assert (newest["snapshot"], newest["stream"], newest["offsets"]) == (head, "orders", "orders 0:0")
    for words in ("Streams", "Tables", "Consumers of changes", "Dead letters", "main.dead", "silver", "orders 0:0"):
        assert words in screen
    assert [row["small_files"] for row in shown.json("status", "--small-file", "1") if "small_files" in row] == [0, 0]


@pytest.mark.usefixtures("lake")
def test_status_of_a_job_is_of_its_lake_whatever_the_environment_names(shown: Shown, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/other.sqlite"
    with Lake.create(url, f"{tmp_path}/other/") as other:
        other.create_table("of_the_job", {"id": "int64"})
    job = tmp_path / "job.toml"
    job.write_text(
        f'[catalog]\nurl = "{url}"\n[pipeline.p]\ncheckpoint = "c"\ninput.kind = "rate"\nsink.table = "of_the_job"\n'
    )

    found = shown.json("status", "--job", str(job))

    assert [row["table"] for row in found if row["kind"] == "table"] == ["main.of_the_job"]


def test_status_of_a_lake_without_a_sink_makes_no_ledger(catalog: Catalog, oracle: Oracle, shown: Shown) -> None:
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    oracle.execute("CREATE TABLE t AS SELECT range AS i FROM range(1000)")
    oracle.close()
    before = catalog.dump()

    found = shown.json("status", "--catalog", catalog.attach)

    assert [row["kind"] for row in found] == ["lake", "table", "snapshot", "snapshot"]
    assert found[1]["rows"] == 1000
    assert shown.json("read", "t", "--catalog", catalog.attach, "--where", "i = 7") == [{"i": 7}]
    assert catalog.dump() == before


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_a_role_that_may_only_read_sees_the_status(catalog: PostgresCatalog, lake: Lake, shown: Shown) -> None:
    commit_epoch(lake, 0, 1)
    with psycopg.connect(catalog.database.conninfo, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS onlooker; CREATE ROLE onlooker LOGIN")
        connection.execute("GRANT pg_read_all_data TO onlooker")
    user = psycopg.conninfo.conninfo_to_dict(catalog.database.conninfo)["user"]
    url = catalog.url.replace(f"{user}@", "onlooker@")

    found = shown.json("status", "--catalog", url)

    assert {row["kind"] for row in found} == {"lake", "stream", "table", "snapshot"}
    assert "onlooker@" in found[0]["catalog"]
    shown.run("flush", "orders", "--catalog", url)
    assert (shown.code, "permission denied" in shown.err) == (2, True)
