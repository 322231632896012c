"""The process of `contenders.Extension`: DuckDB attached to a lake, which inserts Arrow tables and times itself.

The first request on standard input is (attach string, data path); each other one is the Arrow stream of a table to be
inserted, and the answer to it the seconds that the INSERT took.
"""

import os
import pickle
import sys
import time
from typing import BinaryIO

import pyarrow as pa

from tests.fixtures.oracle_worker import connect


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print goes to standard error
    attach, data_path = pickle.load(sys.stdin.buffer)  # noqa: S301 # our own parent wrote it
    connection = connect()
    connection.execute(f"ATTACH '{attach}' AS lake (DATA_PATH '{data_path}')")
    connection.execute("USE lake")
    while (stream := _read(sys.stdin.buffer)) is not None:
        connection.register("readings", pa.ipc.open_stream(stream).read_all())
        start = time.perf_counter()
        connection.execute("INSERT INTO lake.main.sensors SELECT * FROM readings")
        pickle.dump(time.perf_counter() - start, answers)
        answers.flush()


def _read(requests: BinaryIO) -> bytes | None:
    try:
        stream: bytes = pickle.load(requests)  # noqa: S301 # our own parent wrote it
    except EOFError:
        return None
    return stream


if __name__ == "__main__":
    main()
