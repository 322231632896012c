"""Whoever does not ask for traces neither needs nor loads anything of OpenTelemetry."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

UNASKED = """
import sys
import ducklake_core, ducklake_sinks, ducklake_sources
import ducklake_streaming.cli.app, ducklake_streaming.jobs.runner, ducklake_streaming.jobs.checks
from contextlib import ExitStack
from pathlib import Path
from ducklake_streaming.jobs.job_file import load_job
from ducklake_streaming.jobs.job_tracing import begin_tracing

loaded = load_job(Path(sys.argv[1]))
assert begin_tracing(loaded, ExitStack()) == []
print(sorted(name for name in sys.modules if name.startswith("opentelemetry")))
"""
ABSENT = """
import sys
from contextlib import ExitStack
from pathlib import Path

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Absent())
from ducklake_core.errors import InvalidInput
from ducklake_streaming.jobs.job_file import load_job
from ducklake_streaming.jobs.runner import run_job
try:
    run_job(load_job(Path(sys.argv[1])))
except InvalidInput as error:
    print(error)
"""
JOB = """
[catalog]
url = "sqlite:///lake.sqlite"
[pipeline.p]
checkpoint = "c"
input = { kind = "rate" }
sink = { table = "main.t" }
"""


def run_script(script: str, job: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("job") / "job.toml"
    file.write_text(job)
    return subprocess.run(
        [sys.executable, "-c", script, str(file)], check=True, capture_output=True, text=True, cwd=file.parent
    ).stdout.strip()


def test_nothing_of_opentelemetry_is_imported_unasked(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert run_script(UNASKED, JOB, tmp_path_factory) == "[]"


def test_a_job_that_asks_for_traces_without_the_sdk_is_told_what_to_install(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    told = run_script(ABSENT, f"{JOB}\n[tracing]\n", tmp_path_factory)

    assert told.startswith("[tracing] needs OpenTelemetry: pip install 'ducklake-streaming[otel]'")
