"""Every command on the page about the command line runs, and shows what the page says."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Epoch, Lake
from ducklake_streaming.cli.errors import ExitCode

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ORDERS = pa.schema([("id", pa.int64()), ("amount", pa.float64())])


def _commands() -> Iterator[tuple[str, str]]:
    """Yield each command, and the first line that the page shows of its output."""
    for block in BLOCK.findall(PAGE):
        for lines in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = lines.partition("\n")
            yield command, output.partition("\n")[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the lake that the page speaks of."""
    folder = tmp_path_factory.mktemp("page")
    with Lake.create(f"sqlite:///{folder}/lake.sqlite", f"{folder}/data/") as lake:
        lake.create_table("orders", ORDERS)
        for batch in range(3):
            told = f'{{"stream": "orders", "batch_id": {batch}}}'
            with lake.transaction(epoch=Epoch("orders", batch, "query", "run"), extra_info=told) as tx:
                tx.append("orders", pa.table([[1, 2], [9.5, 20.0]], schema=ORDERS))
    return folder


def test_commands_of_the_page_show_what_it_says(folder: Path) -> None:
    """In the order of the page, in one shell session as far as the environment goes."""
    found = list(_commands())
    assert len(found) > 10
    commands = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "DUCKLAKE_CATALOG": "sqlite:///lake.sqlite",
    }
    for command, shown in found:
        done = subprocess.run(
            ["/bin/bash", "-c", command], check=False, cwd=folder, env=environment, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout.split()[: len(shown.split())] == shown.split() or done.stdout.startswith(shown), command
    assert (folder / "orders.csv").read_text().startswith("id,amount\n1,9.5\n")


def test_exit_codes_of_the_page_are_those_of_the_code() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert told == set(ExitCode)
