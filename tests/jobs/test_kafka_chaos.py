"""Each record is in the lake exactly once, though the job is killed, and broker and database are restarted under it.

`make chaos-kafka` runs the large form; CHAOS_SEED chooses what happens when.
"""

import os
from pathlib import Path

import pytest

from tests.fixtures.chaos import Storm, run_chaos
from tests.fixtures.kafka import require_kafka
from tests.fixtures.oracle import Oracle

SEED = int(os.environ.get("CHAOS_SEED", "12"))
SMALL = Storm(3_000, 2, 1, 1, (240, 900), SEED)
LARGE = Storm(200_000, 10, 2, 1, (240, 6_000, 20_000), SEED)
STORM = LARGE if os.environ.get("CHAOS_SIZE") == "large" else SMALL


@pytest.mark.slow
@pytest.mark.timeout(1200 if STORM is SMALL else 0)
def test_each_record_is_in_the_lake_once_whatever_happens(tmp_path: Path, oracle: Oracle) -> None:
    require_kafka()
    with run_chaos(STORM, tmp_path) as chaos:
        chaos.run()

        chaos.check(oracle)
