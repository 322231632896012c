"""Which offsets are in which snapshot: asked of a real lake, by the functions and by the command line."""

import json
import re
from pathlib import Path

import pytest

from ducklake_core import Lake
from ducklake_streaming.cli import main
from ducklake_streaming.kafka.snapshot_offsets import epochs_of, find_offset, last_epochs, streams_into


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    """A lake with two streams into one table, a third into another, and a snapshot that is nobody's."""
    url = f"sqlite:///{tmp_path}/lake.sqlite"
    with Lake.create(url, f"{tmp_path}/data") as lake:
        lake.create_table("main.orders", {"id": "int64"})  # snapshot 1
        lake.create_table("main.other", {"id": "int64"})  # 2
        append(lake, "orders", "main.orders", 0, {"t": {"0": 5, "1": 2}})  # 3
        append(lake, "orders", "main.orders", 1, {"t": {"0": 9, "1": 2, "2": 4}})  # 4
        append(lake, "late", "main.orders", 7, {"u": {"0": 30}, "t": {"0": 3}})  # 5
        append(lake, "elsewhere", "main.other", 0, {"t": {"0": 99}})  # 6
        lake.append("main.orders", {"id": [1]})  # 7
    return url


def append(lake: Lake, stream: str, table: str, batch_id: int, offsets: dict[str, dict[str, int]]) -> None:
    info = json.dumps({"stream": stream, "batch_id": batch_id, "offsets": [offsets]})
    with lake.transaction(extra_info=info) as tx:
        tx.append(table, {"id": [batch_id]})


def test_offsets_of_a_snapshot_are_those_of_the_last_epoch_before_it(catalog: str) -> None:
    with Lake.open(catalog) as lake:
        snapshots = lake.snapshots()
        orders = lake.table("main.orders").version.table_id
    epochs = epochs_of(snapshots)

    assert streams_into(snapshots, orders) == {"orders", "late"}
    assert last_epochs(epochs, 3)["orders"].ends == {("t", 0): 5, ("t", 1): 2}
    assert last_epochs(epochs)["orders"].starts == {("t", 0): 5, ("t", 1): 2}
    assert "late" not in last_epochs(epochs, 4)


@pytest.mark.parametrize(
    ("place", "offset", "found"),
    [
        (("t", 0), 4, [("orders", 3, False), ("elsewhere", 6, False)]),
        (("t", 0), 5, [("orders", 4, True), ("elsewhere", 6, False)]),
        (("t", 2), 0, [("orders", 4, True)]),
        (("u", 0), 29, [("late", 5, False)]),
        (("u", 0), 30, []),
    ],
)
def test_an_offset_is_found_in_the_first_snapshot_that_ends_after_it(
    catalog: str, place: tuple[str, int], offset: int, found: list[tuple[str, int, bool]]
) -> None:
    with Lake.open(catalog) as lake:
        epochs = epochs_of(lake.snapshots())

    places = [(one.epoch.stream, one.epoch.snapshot_id, one.is_exact) for one in find_offset(epochs, place, offset)]

    assert [one for one in places if one[0] != "late" or place[0] == "u"] == found


def rows(catalog: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert main(["offsets", *arguments, "--catalog", catalog, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_command_tells_the_offsets_of_a_stream_or_of_a_table(
    catalog: str, capsys: pytest.CaptureFixture[str]
) -> None:
    held = rows(catalog, capsys, "orders")
    at = rows(catalog, capsys, "orders", "--at", "3")
    of_table = rows(catalog, capsys, "main.orders")

    assert [(row["partition"], row["from_offset"], row["next_offset"]) for row in held] == [
        (0, 5, 9),
        (1, 2, 2),
        (2, None, 4),
    ]
    assert [(row["snapshot"], row["next_offset"]) for row in at] == [(3, 5), (3, 2)]
    assert {row["stream"] for row in of_table} == {"orders", "late"}


def test_the_command_finds_the_snapshot_of_an_offset(catalog: str, capsys: pytest.CaptureFixture[str]) -> None:
    [found] = rows(catalog, capsys, "orders", "--partition", "0", "--offset", "7")

    assert (found["snapshot"], found["batch_id"], found["topic"], found["is_exact"]) == (4, 1, "t", True)
    assert main(["offsets", "orders", "--partition", "0", "--offset", "7", "--catalog", catalog]) == 0
    [_, line] = capsys.readouterr().out.splitlines()
    assert re.search(r"  yes +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ$", line.rstrip())


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["orders", "--partition", "0", "--offset", "9"], 1, "is in no snapshot yet: the lake has those before 9"),
        (["late", "--partition", "0", "--offset", "1"], 2, "which topic? Name it by --topic: t, u"),
        (["nobody"], 2, "streams with offsets: elsewhere, late, orders"),
        (["orders", "--offset", "1"], 2, "--offset and --partition go together"),
    ],
)
def test_questions_without_an_answer_say_why(
    catalog: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert main(["offsets", *arguments, "--catalog", catalog]) == code

    assert said in capsys.readouterr().err
