"""The commands `maintain`: what they do, what they show to people and to machines, and how they end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest

from ducklake_core import Consumer, Lake
from ducklake_core.maintenance.report import Operation
from ducklake_core.model import SnapshotId
from ducklake_streaming import maintain
from ducklake_streaming.cli import main
from ducklake_streaming.jobs.maintenance_settings import MaintenanceSettings
from ducklake_streaming.maintenance.maintain import run_operations
from ducklake_streaming.maintenance.runners import run_in_process
from tests.fixtures.catalogs import Catalog
from tests.fixtures.databases import run
from tests.fixtures.leases import WHEN_LEASES_HAVE_RUN_OUT
from tests.fixtures.oracle import Oracle
from tests.fixtures.terminal import Terminal
from tests.fixtures.waiting import PATIENCE_SECONDS, wait_until

# A command that, at a point within it, tells that it is there and waits for a file.
WAITING = """
import sys, time
from pathlib import Path
from ducklake_core import faults
from ducklake_core.model import SnapshotId
from ducklake_streaming.cli import main
point, there, go, *arguments = sys.argv[1:]
def wait():
    Path(there).touch()
    while not Path(go).exists():
        time.sleep(0.02)
faults.inject(point, wait)
sys.exit(main(arguments))
"""


@pytest.fixture
def lake(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """Give a lake that the environment names: a table with five small files, and rows that are inlined."""
    monkeypatch.setenv("DUCKLAKE_CATALOG", catalog.url)
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("orders", {"id": "int64", "kind": "varchar"})
        lake.create_table("others", {"id": "int64", "kind": "varchar"})
        for first in range(0, 500, 100):
            lake.append("orders", rows(*range(first, first + 100)))
        lake.append("others", rows(1, 2, 3))
        yield lake


@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_a_relative_data_path_is_named_on_the_command_line(
    lake: Lake, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.merge_adjacent_files("orders")
    name = f"{Path(catalog.data_path).name}/"
    run(catalog, f"UPDATE ducklake_metadata SET value = '{name}' WHERE key = 'data_path'")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    command = ["maintain", "cleanup", "--all", "--json"]

    assert main(command) == 0
    held_back = json.loads(capsys.readouterr().out)
    assert main([*command, "--data-path", catalog.data_path]) == 2
    assert "override_data_path" in capsys.readouterr().err
    assert main([*command, "--data-path", str(tmp_path), "--override-data-path"]) == 0
    elsewhere = json.loads(capsys.readouterr().out)
    assert main([*command, "--data-path", catalog.data_path, "--override-data-path"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert main(["doctor", "--data-path", catalog.data_path, "--override-data-path"]) == 0

    assert "--data-path" in str(held_back)
    assert "that is the data path of another lake, or of none" in str(elsewhere)
    assert done["files_before"] == 5


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": list(numbers), "kind": [f"kind {i}" for i in numbers]})


def ids(lake: Lake, table: str = "orders") -> list[int]:
    return sorted(lake.table(table).read(["id"]).column("id").to_pylist())


class Shown:
    """Runs commands, and holds what the last one has shown."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def run(self, *arguments: str) -> int:
        code = main(["maintain", *arguments])
        self.out, self.err = self._capsys.readouterr()
        return code

    def json(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        assert self.run(*arguments, "--json") == code, self.err
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    return Shown(capsys)


def test_all_is_done_in_the_order_of_checkpoint_and_told(
    lake: Lake, shown: Shown, oracle: Oracle, catalog: Catalog
) -> None:
    lake.delete("orders", "id < 90")
    before = ids(lake)

    found = shown.json("all", "--expire-older-than", "0s", "--keep-last", "1", "--cleanup-older-than", "0s")

    operations = list(dict.fromkeys(row["operation"] for row in found))
    assert operations == ["flush", "expire", "merge", "rewrite", "cleanup", "orphans"]
    flushed = [row for row in found if (row["operation"], row["table"]) == ("flush", "main.others")]
    assert [(row["rows"], row["files_after"]) for row in flushed] == [(3, 1)]
    [merged] = [row for row in found if row["operation"] == "merge" and row["files_before"]]
    assert (merged["table"], merged["files_before"], merged["files_after"], merged["outcome"]) == (
        "main.orders",
        4,
        1,
        "done",
    )
    assert ids(lake) == before
    assert shown.err == ""
    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), sum(id) FROM orders") == [(len(before), sum(before))]


def test_without_an_age_nothing_expires_unless_that_is_what_is_asked_for(lake: Lake, shown: Shown) -> None:
    before = len(lake.snapshots())
    settings = MaintenanceSettings.parse({"keep_last": 1})

    shown.json("all", "--table", "others", "--keep-last", "1")
    maintain(lake, operations=["expire"], keep_last=1)
    list(run_operations(lake, replace(settings.request(), operations=(Operation.EXPIRE,)), run_in_process))
    assert len(lake.snapshots()) >= before

    assert shown.json("expire", "--keep-last", "3")[0]["outcome"] == "done"
    assert len(lake.snapshots()) == 3
    lake.set_option("expire_older_than", "0 seconds")
    maintain(lake, operations=["expire"], keep_last=2)
    assert len(lake.snapshots()) == 2


def test_people_see_files_before_and_after(lake: Lake, shown: Shown) -> None:
    assert shown.run("merge", "--table", "orders") == 0

    head, line = shown.out.splitlines()
    assert head.split()[:4] == ["operation", "table", "files", "after"]
    assert line.split()[:4] == ["merge", "main.orders", "5", "1"]
    assert len(lake.table("orders").files()) == 1


def test_a_dry_run_of_expiry_changes_nothing_and_a_consumer_holds_it_back(lake: Lake, shown: Shown) -> None:
    head = lake.snapshots()[-1].snapshot_id
    consumer = Consumer("silver", lake.table("orders").version.table_uuid, SnapshotId(3), lake.clock.now(), None)
    lake.record_consumer(consumer)

    [dry] = shown.json("expire", "--older-than", "0s", "--dry-run")
    kept = len(lake.snapshots())
    [done] = shown.json("expire", "--older-than", "0s")

    assert kept == head + 1
    assert (dry["snapshots"], dry["dry_run"], done["snapshots"]) == (done["snapshots"], True, dry["snapshots"])
    assert "silver" in done["detail"]
    assert lake.snapshots()[0].snapshot_id == 3


def test_files_are_removed_only_after_a_dry_run_is_over(lake: Lake, shown: Shown, catalog: Catalog) -> None:
    shown.run("merge")

    [dry] = shown.json("cleanup", "--older-than", "0s", "--dry-run")
    assert shown.run("cleanup", "--older-than", "0s", "--dry-run") == 0
    told = [line for line in shown.out.splitlines() if line.startswith("would be deleted: ")]
    there = parquet_files(catalog)
    [done] = shown.json("cleanup", "--older-than", "0s")

    assert (dry["files_before"], len(dry["paths"]), len(told), len(there)) == (5, 5, 5, 6)
    assert (done["files_before"], len(parquet_files(catalog))) == (5, 1)
    assert ids(lake) == [*range(500)]


def test_orphans_are_deleted_only_if_that_is_said(lake: Lake, shown: Shown) -> None:
    old, new = (Path(lake.data_path) / "main" / "orders" / f"{name}.parquet" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"nobody knows me")
    os.utime(old, (0, 0))

    [counted] = shown.json("orphans")
    [also_counted] = [row for row in shown.json("all") if row["operation"] == "orphans"]
    still_there = old.exists()
    [deleted] = shown.json("orphans", "--delete")
    [rest] = shown.json("orphans", "--delete", "--all")

    assert (still_there, counted["paths"], counted["dry_run"]) == (True, [str(old)], True)
    assert also_counted["files_before"] == 1
    assert (deleted["files_before"], rest["files_before"]) == (1, 1)
    assert (old.exists(), new.exists()) == (False, False)
    assert ids(lake) == [*range(500)]


def test_one_bad_table_does_not_stop_the_others(lake: Lake, shown: Shown) -> None:
    for first in range(0, 300, 100):
        lake.append("others", rows(*range(first, first + 100)))
    path, *_ = (file.path for file in lake.table("orders").files())
    Path(path).unlink()

    found = shown.json("merge", code=1)

    outcomes = {row["table"]: row["outcome"] for row in found}
    assert outcomes == {"main.orders": "failed", "main.others": "done"}
    assert Path(path).name in next(row["detail"] for row in found if row["table"] == "main.orders")
    assert "table_not_maintained" in shown.err


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["merge", "--table", "no_such"], "no_such"),
        (["expire", "--older-than", "a week"], "'a week', but must be"),
        (["rewrite", "--delete-threshold", "50"], "--delete-threshold"),
        (["expire", "--keep-last", "0"], "--keep-last"),
        (["merg"], "merg"),
        (["--catalog", "sqlite:///x", "merge"], "write --catalog after 'merge'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_usage_errors(shown: Shown, arguments: list[str], told: str) -> None:
    assert shown.run(*arguments) == 2

    assert told in shown.err


@pytest.mark.usefixtures("lake")
def test_what_was_done_is_seen_by_everybody(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    shown.run("merge")

    runs = shown.json("runs")
    assert shown.run() == 0
    listed = shown.out
    main(["status", "--json"])
    status = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [(row["operation"], row["files_before"]) for row in runs if row["outcome"] == "done"] == [("merge", 5)]
    assert "main.orders" in listed
    assert [
        row["files_before"] for row in status if row["kind"] == "maintenance" and row["table"] == "main.orders"
    ] == [5]


@pytest.mark.usefixtures("lake")
def test_a_bar_is_shown_in_a_terminal(catalog: Catalog) -> None:
    with Terminal(["maintain", "all", "--catalog", catalog.url], columns=300) as terminal:
        assert terminal.end() == 0

    assert "1/1" in terminal.text
    assert all(operation in terminal.text for operation in ("flush", "expire", "merge", "rewrite", "cleanup"))
    assert "main.orders" in terminal.text


class Waiting:
    """A command that waits at a point within it. Use it in a `with` block."""

    def __init__(self, folder: Path, point: str, *arguments: str) -> None:
        self._there, self._go = folder / "there", folder / "go"
        command = [sys.executable, "-c", WAITING, point, str(self._there), str(self._go), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        wait_until(lambda: self._there.exists() or self.process.poll() is not None)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def go_on(self) -> None:
        self._go.touch()

    def end(self) -> tuple[int, str]:
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        assert "Traceback" not in err, err
        return self.process.returncode, out


def test_of_two_maintainers_one_yields_and_says_to_whom(lake: Lake, shown: Shown, tmp_path: Path) -> None:
    with Waiting(tmp_path, "lease_taken", "maintain", "merge", "--json") as first:
        held_back = shown.json("all")
        files_then = len(lake.table("orders").files())
        first.go_on()
        code, out = first.end()

    assert files_then == 5
    assert {row["outcome"] for row in held_back if row["operation"] in ("expire", "merge", "rewrite", "cleanup")} == {
        "held back"
    }
    assert all(f":{first.process.pid}:" in row["detail"] for row in held_back if row["outcome"] == "held back")
    assert (code, json.loads(out.splitlines()[0])["files_before"]) == (0, 5)
    assert len(lake.table("orders").files()) == 1


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize("signal_sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_without_a_trace(
    shown: Shown, catalog: Catalog, tmp_path: Path, signal_sent: signal.Signals
) -> None:
    files = parquet_files(catalog)
    with Waiting(tmp_path, POINT, "maintain", "merge") as waiting:
        waiting.process.send_signal(signal_sent)
        code, out = waiting.end()
    files_then = parquet_files(catalog)
    [again] = [row for row in shown.json("merge") if row["files_before"]]

    assert (code, out) == ({signal.SIGTERM: 143, signal.SIGINT: 130}[signal_sent], "")
    assert files_then == files, "what it had written is gone again"
    assert (again["outcome"], again["files_before"]) == ("done", 5), "it holds no lease any more"


def test_who_is_killed_leaves_orphans_that_the_next_one_counts(
    lake: Lake, shown: Shown, catalog: Catalog, oracle: Oracle, tmp_path: Path
) -> None:
    """Two processes maintain at once. One is killed while it merges; the other yields, and so does nothing twice."""
    before, files = ids(lake), len(parquet_files(catalog))
    with Waiting(tmp_path, POINT, "maintain", "all") as killed:
        held_back = shown.json("all")
        killed.process.kill()
        assert killed.process.wait() == -signal.SIGKILL
    with Lake.open(catalog.url, clock=WHEN_LEASES_HAVE_RUN_OUT) as later:
        reports = {report.operation: report for report in maintain(later, cleanup_older_than=0)}
        orphans = later.delete_orphaned_files(cleanup_all=True, dry_run=False)

    assert all(f":{killed.process.pid}:" in row["detail"] for row in held_back if row["outcome"] == "held back")
    assert "merge" in {row["operation"] for row in held_back if row["outcome"] == "held back"}
    assert (reports[Operation.MERGE].total.files_before, reports[Operation.CLEANUP].total.files_before) == (5, 5)
    assert len(orphans.paths) == 1, "what the one that was killed had written"
    assert (files, len(parquet_files(catalog))) == (5, 2)  # of two tables: the killed one had flushed the other
    assert ids(lake) == before
    assert lake.doctor(full=True) == []
    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), count(DISTINCT id) FROM orders") == [(500, 500)]


POINT = "after_compaction_write"  # the new files are there, and no snapshot names them


def parquet_files(catalog: Catalog) -> Sequence[str]:
    return sorted(str(path) for path in Path(catalog.data_path).rglob("*.parquet"))
