"""What is kept beside Spark's own files in a checkpoint, and what is said of one that cannot be reached."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ducklake_streaming.jobs.checkpoint import Checkpoint, CheckpointError

pytestmark = pytest.mark.slow


def test_ids_of_topics_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = Checkpoint(spark, f"{tmp_path}/new")

    assert (checkpoint.next_offsets(), checkpoint.topic_ids()) == ({}, {})
    checkpoint.keep_topic_ids({"orders": "id"})

    assert Checkpoint(spark, f"{tmp_path}/new").topic_ids() == {"orders": "id"}


def test_a_checkpoint_that_cannot_be_reached_is_named_with_what_helps(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(CheckpointError, match=r"cannot write to the checkpoint '.*/file/c': .*; let this user write"):
        Checkpoint(spark, f"{tmp_path}/file/c").keep_topic_ids({})
    with pytest.raises(CheckpointError, match=r"cannot read the checkpoint 'nosuch://x': .*No FileSystem for scheme"):
        Checkpoint(spark, "nosuch://x").next_offsets()
