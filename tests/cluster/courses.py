"""Runs a course in a process of its own: a driver has one Spark, and tests have theirs."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.cluster.course import Plan
from tests.fixtures.guarded import PASSWORD

ROOT = Path(__file__).parents[2]


def run_course(plan: Plan, environment: Mapping[str, str]) -> dict[str, Any]:  # Any: JSON
    """Return what each step found. The password is in no line that the driver has printed."""
    return run_steps(["tests.cluster.course", json.dumps(asdict(plan))], environment)


def run_steps(module: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:  # Any: see above
    """Run a module with its arguments and return what it has printed."""
    command = [sys.executable, "-m", *module]
    run = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, check=False, capture_output=True, text=True
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr[-8000:]}"
    assert PASSWORD not in run.stdout + run.stderr
    found: dict[str, Any] = {}  # Any: see above
    for line in run.stdout.splitlines():
        found |= json.loads(line)
    return found
