"""What a query's checkpoint tells: the offsets where it goes on, and the topics that it began with. Runs on the driver.

Spark keeps the ends of batch N in `offsets/N`, and makes `commits/N` when it is done. Files are read as Spark reads
them, by Hadoop's file systems, so that a checkpoint may be wherever Spark can write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ducklake_core.errors import TerminalError
from ducklake_streaming.kafka.places import Offsets, offsets_of_source

TOPICS_FILE = "ducklake_topics.json"  # beside Spark's own files: the id of each topic


class CheckpointError(TerminalError):
    """Spark cannot reach the folder of a checkpoint, or not write to it."""


class Checkpoint:
    """The folder of one query's checkpoint. Its methods raise CheckpointError."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path

    def next_offsets(self) -> Offsets:
        """Return where the query goes on in each partition of Kafka: the ends of the last batch that is done."""
        with self._telling_errors("read"):
            batches = self._numbers("commits")
            text = self._read(f"offsets/{max(batches)}") if batches else None
        return {} if text is None else parse_offset_file(text)

    def topic_ids(self) -> dict[str, str]:
        """Return the ids of topics that were kept."""
        with self._telling_errors("read"):
            text = self._read(TOPICS_FILE)
        return {} if text is None else dict(json.loads(text))

    def keep_topic_ids(self, ids: Mapping[str, str]) -> None:
        with self._telling_errors("write to"):
            out = self._files.create(self._place(TOPICS_FILE), True)  # noqa: FBT003 # Java's
            try:
                out.write(json.dumps(ids, sort_keys=True).encode())
            finally:
                out.close()

    @cached_property
    def _files(self) -> Any:  # Any: Java's file system, which is asked for when it is needed: there may be none
        configuration = self._spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 # there is no public way
        return self._place().getFileSystem(configuration)

    def _place(self, *name: str) -> Any:  # Any: Java's path
        jvm: Any = self._spark.sparkContext._jvm  # Any: Java's classes # noqa: SLF001 # see `_files`
        return jvm.org.apache.hadoop.fs.Path(self._path, *name)

    @contextmanager
    def _telling_errors(self, act: str) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            raise CheckpointError(
                f"Spark cannot {act} the checkpoint '{self._path}': {error.java_exception}; let this user write there, "
                "name another folder, or give Spark the jars of its file system"
            ) from error

    def _numbers(self, folder: str) -> list[int]:
        path = self._place(folder)
        if not self._files.exists(path):
            return []
        names = [status.getPath().getName() for status in self._files.listStatus(path)]
        return [int(name) for name in names if name.isdecimal()]

    def _read(self, name: str) -> str | None:
        path = self._place(name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            jvm: Any = self._spark.sparkContext._jvm  # Any: Java's classes # noqa: SLF001 # see `_files`
            return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()


def parse_offset_file(text: str) -> Offsets:
    """Return the offsets of Kafka in a file of Spark's offset log: a version, a line of metadata, a line a source."""
    found: dict[tuple[str, int], int] = {}
    for line in text.splitlines()[2:]:
        try:
            told = json.loads(line)
        except ValueError:  # '-', or a source with offsets of its own kind
            continue
        found.update(offsets_of_source(told))
    return found
