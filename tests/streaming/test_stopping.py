"""A driver that is told to end stops its query, and loses and doubles nothing."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeAlias

import pytest

from ducklake_core import Lake
from ducklake_core.errors import DuckLakeError
from tests.fixtures import signals
from tests.fixtures.waiting import wait_until

ROOT = Path(__file__).parents[2]
SECONDS = 150.0
pytestmark = pytest.mark.slow


class Driver:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log_file = folder / f"log{len(list(folder.glob('log*')))}"
        (folder / "incoming").mkdir(exist_ok=True)
        (folder / "signals").mkdir(exist_ok=True)
        environment = {**os.environ, signals.VARIABLE: f"{folder}/signals", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.fixtures.stoppable", self.catalog, str(folder)]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log, stdout=log, cwd=folder, env=environment)

    @property
    def catalog(self) -> str:
        return f"sqlite:///{self.folder}/lake.sqlite"

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def ids(self) -> list[int]:
        try:
            with Lake.open(self.catalog) as lake:
                return sorted(lake.table("main.events").read().column("id").to_pylist())
        except DuckLakeError:
            return []

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        return self.process.wait(SECONDS)

    def add(self, number: int) -> None:
        new = self.folder / f"{number}.json"
        new.write_text(f'{{"id": {number}}}\n')
        new.rename(self.folder / "incoming" / new.name)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        wait_until(lambda: condition() or self.process.poll() is not None, seconds=SECONDS)
        assert condition(), self.log[-10000:]


StartDriver: TypeAlias = Callable[[], Driver]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartDriver]:
    with ExitStack() as stack:

        def start() -> Driver:
            driver = Driver(tmp_path)
            stack.callback(driver.process.wait)
            stack.callback(kill, driver.process)
            return driver

        yield start


def kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_driver_ends_well_in_the_middle_of_a_batch_and_goes_on_after_a_restart(
    start: StartDriver, number: signal.Signals, tmp_path: Path
) -> None:
    driver = start()
    driver.add(0)
    driver.wait_for(lambda: driver.ids() == [0])
    (tmp_path / "signals/hold.batch").touch()
    driver.add(1)
    driver.wait_for((tmp_path / "signals/held.batch").exists)

    driver.signal(number)
    driver.wait_for(lambda: "stopping" in driver.log)
    (tmp_path / "signals/release.batch").touch()

    assert driver.end() == 0, driver.log[-10000:]
    assert f"stopping queries=1 signal={number.name}" in driver.log
    assert "batch_failed" not in driver.log
    assert driver.ids() in ([0], [0, 1])
    (tmp_path / "signals/hold.batch").unlink()
    again = start()
    again.add(2)
    again.wait_for(lambda: again.ids() == [0, 1, 2])
    again.signal(number)  # between two batches
    assert again.end() == 0, again.log[-10000:]
    assert again.ids() == [0, 1, 2]


def test_second_signal_ends_the_driver_at_once(start: StartDriver, tmp_path: Path) -> None:
    driver = start()
    (tmp_path / "signals/hold.batch").touch()
    driver.add(0)
    driver.wait_for((tmp_path / "signals/held.batch").exists)

    driver.signal(signal.SIGTERM)
    driver.wait_for(lambda: "stopping" in driver.log)
    driver.signal(signal.SIGTERM)

    assert driver.end() == -signal.SIGTERM
