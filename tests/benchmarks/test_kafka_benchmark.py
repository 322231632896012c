"""The benchmark of Kafka runs: few records, so that it cannot rot. How long things take is not asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.kafka import require_kafka

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_share_is_measured() -> None:
    require_kafka()
    command = [sys.executable, "-m", "benchmarks.kafka", "share", "--records", "20", "--rounds", "2", "--json"]

    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)  # it needs a Spark of its own

    assert done.returncode == 0, done.stderr
    [phases] = json.loads(done.stdout).values()
    assert {"batch", "floor: read and parse", "pipeline", "sink: commit", "our share"} <= phases.keys()
