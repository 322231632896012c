"""Makes the picture of the status page for the README, from a real demo with Kafka: `make picture`."""

import json
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from tests.fixtures.browser import find_browser, running_browser
from tests.fixtures.waiting import wait_until

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "status-page.png"
COMMAND = (sys.executable, "-c", "import sys; from ducklake_streaming.cli import main; sys.exit(main())", "demo")
DEMO_SECONDS, BATCHES = 300, 9  # half of the time is over when the job is killed
WIDTH, HEIGHT, SCALE = 1100, 1000, 1.5
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/")


def main() -> None:
    program = find_browser()
    with tempfile.TemporaryDirectory() as folder:
        options = ("--input", "kafka", "--seconds", str(DEMO_SECONDS), "--directory", f"{folder}/demo-lake")
        with subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, text=True) as demo:
            try:
                take(program, find_address(demo))
            finally:
                demo.send_signal(signal.SIGINT)  # it ends its broker and its job, too


def find_address(demo: "subprocess.Popen[str]") -> str:
    """Return the address that the demo prints."""
    assert demo.stdout is not None
    for line in demo.stdout:
        if found := ADDRESS.search(line):
            return found[0]
    raise SystemExit("the demo has ended without an address")


def take(program: str, address: str) -> None:
    """Wait until there is something to see, and take the picture."""
    wait_until(lambda: is_worth_a_look(address), seconds=400)
    with running_browser(program) as browser:
        tab = browser.open_tab()
        tab.resize(WIDTH, HEIGHT, SCALE)
        tab.prefer("light")
        tab.open(address)
        wait_until(lambda: tab.count("main.live"))
        tab.take_picture(PICTURE)


def is_worth_a_look(address: str) -> bool:
    """Tell whether a pipeline has run for a while, and the catalog was asked."""
    try:
        with urllib.request.urlopen(f"{address}facts.json", timeout=5) as answer:  # noqa: S310 # an address of ours
            told: dict[str, Any] = json.load(answer)  # Any: as JSON has it
    except OSError:
        return False
    pipelines = told["rows"]["pipeline"]
    return told["lake"] is not None and any(one["batches"] >= BATCHES for one in pipelines)


if __name__ == "__main__":
    main()
