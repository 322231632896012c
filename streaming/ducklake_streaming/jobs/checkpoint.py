"""What a query's checkpoint tells: the offsets where it goes on, and the topics that it began with. Runs on the driver.

Spark keeps the ends of batch N in `offsets/N`, and makes `commits/N` when it is done. Files are read as Spark reads
them, by Hadoop's file systems, so that a checkpoint may be wherever Spark can write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from ducklake_streaming.kafka.places import Offsets, offsets_of_source

TOPICS_FILE = "ducklake_topics.json"  # beside Spark's own files: the id of each topic


class Checkpoint:
    """The folder of one query's checkpoint."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark.sparkContext._jvm  # Any: Java's classes # noqa: SLF001 # there is no public way to Hadoop
        self._jvm = jvm
        self._root: Any = jvm.org.apache.hadoop.fs.Path(path)
        configuration = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 # see above
        self._files: Any = self._root.getFileSystem(configuration)

    def next_offsets(self) -> Offsets:
        """Return where the query goes on in each partition of Kafka: the ends of the last batch that is done."""
        batches = self._numbers("commits")
        if not batches:
            return {}
        text = self._read(f"offsets/{max(batches)}")
        return {} if text is None else parse_offset_file(text)

    def topic_ids(self) -> dict[str, str]:
        """Return the ids of topics that were kept."""
        text = self._read(TOPICS_FILE)
        return {} if text is None else dict(json.loads(text))

    def keep_topic_ids(self, ids: Mapping[str, str]) -> None:
        out = self._files.create(self._jvm.org.apache.hadoop.fs.Path(self._root, TOPICS_FILE), True)  # noqa: FBT003 # Java's
        try:
            out.write(json.dumps(ids, sort_keys=True).encode())
        finally:
            out.close()

    def _numbers(self, folder: str) -> list[int]:
        path = self._jvm.org.apache.hadoop.fs.Path(self._root, folder)
        if not self._files.exists(path):
            return []
        names = [status.getPath().getName() for status in self._files.listStatus(path)]
        return [int(name) for name in names if name.isdecimal()]

    def _read(self, name: str) -> str | None:
        path = self._jvm.org.apache.hadoop.fs.Path(self._root, name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
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
