"""A lake tells its recorder what happens, and a recorder that fails changes nothing."""

from pathlib import Path

from ducklake_core import Epoch, Lake
from ducklake_core.clock import Clock
from ducklake_core.observe import CommitMade, EpochReplayed, Event, FeedRead, Flushed


class Memory:
    """Keeps the events, and then fails."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event) -> None:
        self.events.append(event)
        raise OSError("no room")


def test_commits_flushes_and_replays_are_told_and_a_recorder_that_fails_breaks_none(tmp_path: Path) -> None:
    memory, seconds = Memory(), iter(range(1000))
    url = f"sqlite:///{tmp_path}/lake.sqlite"
    clock = Clock(seconds=lambda: float(next(seconds)))

    with Lake.create(url, f"{tmp_path}/data", recorder=memory, clock=clock) as lake:
        lake.create_table("t", {"id": "int64"})
        lake.append("t", {"id": [1, 2]})
        lake.flush_inlined("t")
        for _ in range(2):
            lake.commit_epoch(Epoch("s", 0, "q", "r"), lambda tx: tx.append("t", {"id": [3]}))
        rows = lake.table("t").count()
        changes = lake.changes("t", 2, 3)

    kept = memory.events
    assert rows == 3
    assert [type(event) for event in kept] == [
        CommitMade,
        CommitMade,
        CommitMade,
        Flushed,
        CommitMade,
        EpochReplayed,
        FeedRead,
    ]
    assert kept[1] == CommitMade(2, 1, 1.0)
    flushed = kept[3]
    assert isinstance(flushed, Flushed)
    assert (flushed.table, flushed.rows, flushed.files, flushed.snapshot_id) == ("main.t", 2, 1, 3)
    assert kept[5] == EpochReplayed("s", 0)
    assert changes.num_rows == 2
    assert kept[6] == FeedRead("main.t", 1, 3, 2, 1.0)
