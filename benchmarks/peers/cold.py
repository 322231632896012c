"""The first read of a new session, in a process of its own: `python -m benchmarks.peers.cold MODULE ARM FOLDER`.

The session knows only the peer that the arm needs, and has run one small job of Spark's own. What the import of our
package takes, beside that of PySpark, is told by itself: users of the other formats import nothing.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark.sql  # noqa: F401 # whoever uses Spark imports it

from benchmarks.peers.tables import rotated, timed

_PEERS = {"Delta": ["delta"], "Iceberg": ["iceberg"]}
_MARK = "first read: "


def measure(module: str, arms: Sequence[str], folder: Path, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of the first read by each arm, in as many processes as there are rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    imports = []
    for number in range(rounds):
        for name in rotated(arms, number):
            told = _run(module, name, folder)
            seconds[name].append(told["read"])
            imports.append(told["import"])
    print(f"(import of ducklake_sources: {sorted(imports)[len(imports) // 2]:.2f} s)")
    return seconds


def _run(module: str, arm: str, folder: Path) -> Mapping[str, float]:
    command = [sys.executable, "-m", "benchmarks.peers.cold", module, arm, str(folder)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in answer.stdout.splitlines():
        if line.startswith(_MARK):
            told: dict[str, float] = json.loads(line.removeprefix(_MARK))
            return told
    raise RuntimeError(f"the first read by {arm} failed: {answer.stderr}")


def main(module: str, arm: str, folder: str) -> None:
    imported = timed(lambda: importlib.import_module("ducklake_sources").native_changes)  # which imports all it needs
    session = importlib.import_module("benchmarks.peers.session")
    read = importlib.import_module(f"benchmarks.peers.{module}").ARMS[arm]
    spark = session.open_session(Path(folder), _PEERS.get(arm, []))
    spark.range(1000).write.format("noop").mode("overwrite").save()
    seconds = timed(lambda: read(spark, Path(folder) / "feed"))
    print(_MARK + json.dumps({"read": seconds, "import": imported}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
