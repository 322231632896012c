"""What is told of a batch that failed, and of the rows that a batch kept aside."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core.errors import InvalidInput
from ducklake_core.files.storage import Storage
from ducklake_core.model import NewDataFile
from ducklake_core.observe import LOG_RECORDER, Event
from ducklake_sinks.epoch import EpochStart
from ducklake_sinks.part import Part
from ducklake_sinks.query import BY_HAND, Query
from ducklake_sinks.report import DeadLettersKept, failure_of, record_dead_letters


class Kept(list[Event]):
    """A recorder that keeps what happens."""

    def record(self, event: Event) -> None:
        self.append(event)


@pytest.mark.parametrize(
    ("query", "stream", "told"),
    [
        (Query("6f1d", "r"), "s", "stream=s batch=0"),
        (Query("6f1d", "r"), None, "stream=6f1d batch=0"),
        (Query(BY_HAND, "r"), None, "batch=0"),
        (None, None, "batch=0"),
    ],
)
def test_failure_names_its_stream_or_the_query(
    query: Query | None, stream: str | None, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    LOG_RECORDER.record(failure_of(query, {"stream": stream, "batch": 0}, InvalidInput("no")))

    assert caplog.messages == [f'batch_failed {told} error="InvalidInput: no"']


def test_letters_in_files_have_their_reasons_and_those_in_lost_files_are_counted(tmp_path: Path) -> None:
    letters = pa.table({"table_name": ["main.t", None, "main.t"], "reason": ["bad", "worse", "bad"]})
    pq.write_table(letters, tmp_path / "a.parquet")
    files = tuple(NewDataFile(name, True, 3, 0, 0, ()) for name in ("a.parquet", "gone.parquet"))  # noqa: FBT003 # its order
    part = Part("main.dead", None, letters.slice(0, 1), files, f"{tmp_path}/")
    kept = Kept()

    record_dead_letters(kept, EpochStart(Query(BY_HAND, "r"), None), [part], Storage.of(str(tmp_path)))

    assert kept == [
        DeadLettersKept({}, "main.t", 1, "main.dead", "bad", {"bad": 1}),
        DeadLettersKept({}, "main.t", 2, "main.dead", "bad", {"bad": 2}),
        DeadLettersKept({}, None, 1, "main.dead", "worse", {"worse": 1}),
        DeadLettersKept({}, None, 3, "main.dead", None),
    ]
