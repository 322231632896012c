"""A job as a child process: `ducklake-stream run FILE`, which can be killed and started again. No Spark here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

# The command `ducklake-stream` by the Python that runs us: it need not be on the path.
COMMAND = (sys.executable, "-c", "import sys; from ducklake_streaming.cli import main; sys.exit(main())")
STOP_SECONDS = 120.0


class JobProcess:
    """One run of a job; what it prints is added to a log."""

    def __init__(self, job: Path, log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 # a fixed list
                [*COMMAND, "run", str(job)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for us, and Spark's JVM can be killed with its parent
            )

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """End it and its JVM at once, as a loss of power would."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """Ask it to end after the running batch, and return its exit code; kill it if it does not."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def close(self) -> None:
        if self.exit_code is None:
            self.kill()
