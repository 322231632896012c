"""What happens to the tasks of a frame on a cluster: a process dies, or an attempt is slow. Runs on executors."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

_PATIENCE_SECONDS = 120
_STEP_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Trouble:
    """Passes rows on. At the end of partition 0, what `kind` says happens, once: `marks` is a folder all share."""

    kind: str
    marks: str

    def on(self, frame: DataFrame) -> DataFrame:
        Path(self.marks).mkdir(parents=True)
        return frame.mapInArrow(self, frame.schema)

    def attempts(self) -> int:
        """Return how many attempts at partition 0 there were."""
        return len(list(Path(self.marks).glob("attempt-0-*")))

    def __call__(self, record_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        partition, attempt = context.partitionId(), context.attemptNumber()
        (Path(self.marks) / f"attempt-{partition}-{attempt}").touch()
        yield from record_batches
        if partition == 0:
            self._strike(attempt)

    def _strike(self, attempt: int) -> None:
        match self.kind:
            case "executor dies" if attempt == 0:
                os.kill(_ancestor(2), signal.SIGKILL)  # the daemon of Python workers, the executor
            case "worker dies" if attempt == 0:
                worker, executor = _ancestor(3), _ancestor(2)
                os.kill(worker, signal.SIGKILL)
                os.kill(executor, signal.SIGKILL)
            case "first attempt is slow":
                self._wait_for_second(attempt)
            case _:
                pass

    def _wait_for_second(self, attempt: int) -> None:
        """Let the first attempt end just when the second has all rows, too: both of them may be first."""
        done = Path(self.marks) / "second"
        if attempt:
            done.touch()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not done.exists() and time.monotonic() < deadline:
            time.sleep(_STEP_SECONDS)


def _ancestor(generations: int) -> int:
    pid = os.getpid()
    for _ in range(generations):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid
