"""Whether a task of ours failed because the executors' Python lacks what it needs. Runs on the driver."""

from __future__ import annotations

import re

from ducklake_core.errors import InvalidInput


def refuse_missing_package(error: Exception) -> None:
    """Raise InvalidInput from a failed job's error if a package is missing there; else return."""
    missing = re.search(r"No module named '(ducklake_\w+|pyarrow|pandas)", str(error))
    if missing is not None:
        raise InvalidInput(
            f"Spark's executors run a Python without '{missing.group(1)}': install ducklake-streaming there, or name "
            "the Python that has it in the environment variable PYSPARK_PYTHON before Spark starts"
        ) from error
