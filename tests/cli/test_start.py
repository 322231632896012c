"""What starts when a command starts: neither Java nor Spark, and nothing heavy that is not used."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_sinks.dead_letters import DEAD_LETTER_SCHEMA

HEAVY = {"pyspark", "pandas", "confluent_kafka", "duckdb", "py4j"}
PROBE = """
import json, subprocess, sys, time
begun = time.process_time()
started = []
popen = subprocess.Popen.__init__
subprocess.Popen.__init__ = lambda self, *a, **k: (started.append(str(a)), popen(self, *a, **k))[1]
from ducklake_streaming.cli import main
code = main()
sys.stdout.flush()
found = sorted({name.partition(".")[0] for name, module in sys.modules.items() if module is not None})
print(json.dumps([code, found, started, time.process_time() - begun]), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("start")
    url = f"sqlite:///{folder}/lake.sqlite"
    with Lake.create(url, f"{folder}/data/") as lake:
        lake.set_option("data_inlining_row_limit", 10)
        lake.create_table("t", {"i": "int64", "s": "varchar", "ts": "timestamp_ns"})
        table = pa.table({"i": range(100), "s": ["x"] * 100, "ts": pa.array(range(100), pa.timestamp("ns"))})
        lake.append("t", table)
        lake.append("t", table.slice(0, 2))
        lake.create_table("dead", DEAD_LETTER_SCHEMA)
        letters = pa.Table.from_pylist([{"reason": "why", "value": b"x"}], DEAD_LETTER_SCHEMA)
        with lake.transaction(extra_info='{"stream": "s", "offsets": [{"t": {"0": 1}}]}') as tx:
            tx.append("dead", letters)
    return url


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["tables"],
        ["status"],
        ["snapshots"],
        ["read", "t", "--json"],
        ["read", "t", "--where", "i = 1"],
        ["changes", "t"],
        ["streams"],
        ["consumers"],
        ["offsets", "s"],
        ["dead-letters", "list"],
        ["dead-letters", "show", "0"],
        ["flush", "--all"],
        ["maintain", "all"],
        ["maintain", "runs"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_imported_and_no_process_started(
    arguments: list[str], catalog: str, record_property: Callable[[str, object], None]
) -> None:
    named = [] if arguments == ["--help"] else ["--catalog", catalog]
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments, *named], check=True, capture_output=True, text=True, cwd=Path("/")
    )

    code, imported, started, seconds = json.loads(done.stderr.splitlines()[-1])
    record_property("cpu_seconds", seconds)
    record_property("seconds", time.monotonic() - begun)
    print(f"{' '.join(arguments)}: {seconds:.2f} s of CPU")  # noqa: T201 # measured and shown, and not asserted
    assert (code, HEAVY & set(imported), started) == (0, set(), [])
    if arguments == ["--help"]:
        assert not {"pyarrow", "sqlalchemy", "psycopg"} & set(imported)
    if "--where" not in arguments:
        assert "sqlglot" not in imported


def test_spark_finds_pandas_in_a_process_that_runs_it() -> None:
    probe = "from ducklake_streaming.cli import main; main(); import pandas"

    subprocess.run([sys.executable, "-c", probe, "run", "nowhere.toml"], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("words", "completed"),
    [(["st"], ["status", "streams"]), (["read", "t"], ["t"]), (["read", "main.t"], ["main.t"]), (["read", "no"], [])],
    ids=str,
)
def test_the_shell_completes_commands_and_tables(words: list[str], completed: list[str], catalog: str) -> None:
    asked = {
        "_DUCKLAKE_STREAM_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["ducklake-stream", *words]),
        "COMP_CWORD": str(len(words)),
        "DUCKLAKE_CATALOG": catalog,
    }
    command = [sys.executable, "-c", "from ducklake_streaming.cli import main; main()"]

    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **asked})

    assert (done.stdout.split(), done.stderr) == (completed, "")
