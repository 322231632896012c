"""The console blocks of a page, and a shell that runs their commands in a folder with a lake of orders."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from ducklake_core import Epoch, Lake

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ORDERS = pa.schema([("id", pa.int64()), ("amount", pa.float64())])


def commands_of(page: str) -> Iterator[tuple[str, str]]:
    """Yield each command, and the first line that the page shows of its output."""
    for block in BLOCK.findall(page):
        for lines in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = lines.partition("\n")
            yield command, output.partition("\n")[0]


def make_lake_of_orders(folder: Path) -> None:
    """Make the lake that the pages speak of: three batches of two orders."""
    with Lake.create(f"sqlite:///{folder}/lake.sqlite", f"{folder}/data/") as lake:
        lake.create_table("orders", ORDERS)
        for batch in range(3):
            told = f'{{"stream": "orders", "batch_id": {batch}}}'
            with lake.transaction(epoch=Epoch("orders", batch, "query", "run"), extra_info=told) as tx:
                tx.append("orders", pa.table([[1, 2], [9.5, 20.0]], schema=ORDERS))


def check_commands(page: str, folder: Path, *, at_least: int) -> None:
    """Run the commands in the order of the page, in one shell session as far as the environment goes."""
    found = list(commands_of(page))
    assert len(found) >= at_least
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
